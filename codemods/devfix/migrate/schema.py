"""The tables of a campaign's file, version by version."""

from __future__ import annotations

APPLICATION = 0x64666D67  # "dfmg"
# Each script brings a file of the version before it to its own; they are never changed, only added to.
SCHEMA = (
    """
    CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE repository (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,        -- the name of its folder in results/
        name TEXT NOT NULL,
        source TEXT NOT NULL,           -- JSON: where it is, and its own settings
        files BLOB,                     -- of a shard: paths, compressed
        state TEXT NOT NULL,
        stage TEXT NOT NULL DEFAULT '', -- the step that is at work, or that failed
        reason TEXT NOT NULL DEFAULT '',
        attempt INTEGER NOT NULL DEFAULT 0,
        head TEXT NOT NULL DEFAULT '',  -- the commit that the result is about
        base_branch TEXT NOT NULL DEFAULT '',
        "commit" TEXT NOT NULL DEFAULT '',
        subject TEXT NOT NULL DEFAULT '',
        verified TEXT NOT NULL DEFAULT '',
        files_analysed INTEGER NOT NULL DEFAULT 0,
        files_changed INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        seconds REAL NOT NULL DEFAULT 0,
        notes TEXT NOT NULL DEFAULT '[]',
        decision TEXT NOT NULL DEFAULT '',      -- of a review: accepted or rejected
        pushed TEXT NOT NULL DEFAULT '',        -- the commit that is on the remote's branch
        pull_request TEXT NOT NULL DEFAULT '',
        changed_at REAL NOT NULL
    );
    CREATE INDEX repository_state ON repository (state);
    CREATE TABLE event (
        number INTEGER PRIMARY KEY,
        repository TEXT NOT NULL,
        at REAL NOT NULL,
        step TEXT NOT NULL,
        what TEXT NOT NULL,             -- begin, end, lost, or the command that changed the state
        state TEXT NOT NULL,
        head TEXT NOT NULL DEFAULT '',
        detail TEXT NOT NULL DEFAULT '',
        seconds REAL NOT NULL DEFAULT 0
    );
    CREATE INDEX event_repository ON event (repository);
    CREATE TABLE finding (
        repository TEXT NOT NULL,
        codemod TEXT NOT NULL,
        found INTEGER NOT NULL,
        fixed INTEGER NOT NULL,
        remaining INTEGER NOT NULL,
        PRIMARY KEY (repository, codemod)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE repository ADD COLUMN patch TEXT NOT NULL DEFAULT '';    -- digest of what the commit changes
    ALTER TABLE repository ADD COLUMN outdated TEXT NOT NULL DEFAULT ''; -- a decision about another patch
    """,
    """
    ALTER TABLE repository ADD COLUMN request TEXT NOT NULL DEFAULT '';  -- open, draft, approved, ...; or reopened
    ALTER TABLE repository ADD COLUMN checks TEXT NOT NULL DEFAULT '';   -- passed, failed, pending
    ALTER TABLE repository ADD COLUMN conflicts INTEGER NOT NULL DEFAULT 0;
    """,
)
