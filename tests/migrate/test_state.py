"""The file of a campaign: whole or refused, brought up to date, and honest about what was interrupted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from devfix.migrate import campaigns, schema, state
from devfix.migrate.model import Count, Head, Job, MigrateError, Outcome, Settings, Source

SETTINGS = Settings("camp", "devfix/camp", codemods=("reorder-to",))
CHANGED = Outcome(
    "analyse",
    "changed",
    head=Head("1" * 40, 5, "main"),
    commit="2" * 40,
    counts=(Count("reorder-to", 2, 1, 1),),
)


@pytest.fixture
def store(tmp_path: Path) -> state.Store:
    store = state.Store(str(tmp_path / "campaign.db"), make=True)
    store.start(SETTINGS, [("a", "x/a", Source("/a")), ("b", "x/b", Source("/b", skip="old"))])
    return store


def finish(store: state.Store, outcome: Outcome) -> str:
    job = store.job("a")
    store.begin("a", "clone", "cloning")
    store.end(job, Outcome("clone", "analysing", head=outcome.head))
    store.begin("a", "analyse", "analysing")
    return store.end(job, outcome)


def test_what_is_written_is_read(store: state.Store) -> None:
    assert store.settings() == SETTINGS
    assert store.job("a") == Job("a", "x/a", Source("/a"), SETTINGS)
    assert [(row.id, row.state, row.reason) for row in store.rows()] == [
        ("a", "pending", ""),
        ("b", "skipped", "old"),
    ]
    assert finish(store, CHANGED) == "changed"
    assert store.row("a").commit == "2" * 40 and store.row("a").base_branch == "main"
    assert store.findings() == (Count("reorder-to", 2, 1, 1),)
    assert [(event.step, event.what) for event in store.events("a")] == [
        ("", "init"), ("clone", "begin"), ("clone", "end"), ("analyse", "begin"), ("analyse", "end"),
    ]  # fmt: skip


def test_files_of_a_shard_with_odd_names(tmp_path: Path) -> None:
    source = Source("/a", files=("a\udce9.py", "b\nc.py"), shard="x")
    with state.Store(str(tmp_path / "campaign.db"), make=True) as store:
        store.start(SETTINGS, [("a", "x/a", source)])
        assert store.job("a").source == source


def test_what_was_interrupted_is_pending_again(store: state.Store) -> None:
    store.begin("a", "clone", "cloning")
    assert store.row("a").state == "cloning"
    assert store.recover() == 1
    assert store.row("a").state == "pending" and store.waiting() == ["a"] and store.recover() == 0


def test_after_a_merge(store: state.Store) -> None:
    """It is the head that says so: nothing is left to fix there."""
    finish(store, CHANGED)
    store.change("a", "push", pushed="2" * 40, state="pushed")
    later = Head("3" * 40, 6, "main")
    assert finish(store, Outcome("analyse", "nothing-to-do", "no findings", head=later)) == "merged"
    again = Outcome("analyse", "changed", head=Head("4" * 40), commit="5" * 40)
    assert finish(store, again) == "changed", "somebody has brought it back"


def test_the_same_commit_is_pushed_already(store: state.Store) -> None:
    finish(store, CHANGED)
    store.change("a", "push", pushed="2" * 40, state="pushed")
    assert finish(store, CHANGED) == "pushed"


def test_a_failure_forgets_nothing(store: state.Store) -> None:
    finish(store, CHANGED)
    store.change("a", "review", decision="accepted")
    assert finish(store, Outcome("clone", "failed", "no network")) == "failed"
    row = store.row("a")
    assert (row.commit, row.head, row.stage, row.decision) == ("2" * 40, "1" * 40, "clone", "accepted")


def test_a_decision_is_about_one_commit(store: state.Store) -> None:
    finish(store, CHANGED)
    store.change("a", "review", decision="accepted")
    finish(store, CHANGED)
    assert store.row("a").decision == "accepted"
    finish(store, Outcome("analyse", "changed", head=Head("3" * 40), commit="6" * 40))
    assert (store.row("a").decision, store.row("a").outdated) == ("", "accepted")


def test_a_name_must_be_clear(store: state.Store) -> None:
    assert store.find("x/a") == store.find("a") == "a"
    with pytest.raises(MigrateError, match="may be x/a, x/b"):
        store.find("x/")
    with pytest.raises(MigrateError, match="no repository"):
        store.find("nope")


def test_a_damaged_file_is_refused(tmp_path: Path, store: state.Store) -> None:
    store.__exit__()
    path = tmp_path / "campaign.db"
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 3] = b"\xff" * 8192
    path.write_bytes(data)
    with pytest.raises(MigrateError, match=r"damaged|cannot be used"):
        state.Store(str(path))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "campaign.db"
    sqlite3.connect(path).executescript("CREATE TABLE x (y); INSERT INTO x VALUES (1);")
    with pytest.raises(MigrateError, match="not a campaign file"):
        state.Store(str(path))
    path.write_bytes(b"hello, world" * 100)
    with pytest.raises(MigrateError, match="cannot be used"):
        state.Store(str(path))
    with pytest.raises(MigrateError, match="is no campaign"), campaigns.opened(str(tmp_path / "none")):
        pass


def test_an_older_file_is_brought_up_to_date(
    tmp_path: Path, store: state.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.__exit__()
    path = str(tmp_path / "campaign.db")
    monkeypatch.setattr(state, "SCHEMA", (*schema.SCHEMA, "ALTER TABLE event ADD COLUMN extra TEXT"))
    with state.Store(path) as newer:
        assert newer.job("a").name == "x/a"
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(schema.SCHEMA) + 1,)
        assert db.execute("SELECT count(extra) FROM event").fetchone() == (0,)
    monkeypatch.setattr(state, "SCHEMA", schema.SCHEMA)
    with pytest.raises(MigrateError, match="later devfix"):
        state.Store(path)


def test_a_campaign_of_the_first_version(tmp_path: Path) -> None:
    """Its decisions hold for the same commit, since it does not know the patches."""
    path = str(tmp_path / "campaign.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "SCHEMA", schema.SCHEMA[:1])
        with state.Store(path, make=True):
            pass
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO setting VALUES ('settings', ?)", (SETTINGS.to_json(),))
        db.execute(
            'INSERT INTO repository (id, name, source, state, "commit", decision, changed_at)'
            " VALUES ('a', 'x/a', '{\"url\": \"/a\"}', 'changed', ?, 'accepted', 0)",
            ("2" * 40,),
        )
    with state.Store(path) as store:
        assert (store.row("a").patch, store.row("a").outdated) == ("", "")
        finish(store, CHANGED)
        assert store.row("a").decision == "accepted"


def test_a_failed_update_leaves_the_older_file(
    tmp_path: Path, store: state.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.__exit__()
    path = str(tmp_path / "campaign.db")
    monkeypatch.setattr(state, "SCHEMA", (*schema.SCHEMA, "CREATE TABLE half (x); SELECT nonsense"))
    with pytest.raises(MigrateError):
        state.Store(path)
    monkeypatch.setattr(state, "SCHEMA", schema.SCHEMA)
    with state.Store(path) as same, sqlite3.connect(path) as db:
        assert same.job("a").name == "x/a"
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    from devfix.migrate import folders

    with (
        folders.locked(str(tmp_path)),
        pytest.raises(MigrateError, match="is at work on"),
        folders.locked(str(tmp_path)),
    ):
        pass
    with folders.locked(str(tmp_path)):
        pass
