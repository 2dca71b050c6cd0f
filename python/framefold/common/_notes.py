"""Notes on exceptions of user code, whose classes may forbid them or keep something else there."""

from __future__ import annotations

from contextlib import suppress


def add_note(error: BaseException, note: str) -> None:
    """Add a note, unless the exception takes none."""
    with suppress(Exception):
        error.add_note(note)


def notes_of(error: BaseException) -> list[str]:
    """The notes of an exception; none where they are no list."""
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        return []
    return [note for note in notes if isinstance(note, str)]
