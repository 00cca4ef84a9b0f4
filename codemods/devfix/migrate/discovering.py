"""The repositories of an organisation, as a server lists them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.migrate.forges.places import Forges, place_of
from devfix.migrate.model import MigrateError, Settings, Source


@dataclass(frozen=True)
class Wanted:
    """Which of them; empty fields do not matter."""

    language: str = ""
    topics: tuple[str, ...] = ()  # all of them
    archived: bool = False  # those, too: they are looked at, and cannot be pushed to
    since: str = ""  # YYYY-MM-DD of the last push
    text: str = ""  # in its code
    ssh: bool = False


def discovered(url: str, settings: Settings, wanted: Wanted) -> Iterator[Source]:
    """The repositories of the organisation, group or person at this address, by name; raises MigrateError."""
    place = place_of(url, settings.forges)
    if place is None or not place.path:
        raise MigrateError(f"{url}: is no organisation on a server that is known; --forge KIND=URL names one")
    forge = Forges(settings).at(place)
    found = forge.owned(place.path)
    having = forge.containing(place.path, wanted.text) if wanted.text else None
    for one in sorted(found, key=lambda one: one.path):
        fits = set(wanted.topics) <= set(one.topics) and (wanted.archived or not one.archived)
        fits = fits and (not wanted.since or one.pushed >= wanted.since) and one.size <= settings.limits.size
        fits = fits and (having is None or one.path in having)
        # Last of all: some servers are asked once more for each repository.
        language = (one.language or forge.language(one.path)) if fits and wanted.language else ""
        if fits and language.lower() == wanted.language.lower():
            yield Source(one.ssh if wanted.ssh else one.https)
