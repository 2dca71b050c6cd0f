"""Where results go, checked before anything runs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from framefold.exceptions import FileAccessError, InvalidArgumentError
from framefold.results.saving import WRITERS, ending_of

_REDUCTION, _STEM = "{reduction}", "{stem}"


def targets_of(names: Sequence[str], given: Namespace) -> list[list[Path]]:
    """For each file a place for the results of each name; none if they are not written.

    Raises
    ------
    InvalidArgumentError
        If a place cannot be written to, or two results would share one.
    """
    template = _template(len(names), given)
    if template is None:
        return [[] for _ in given.files]
    targets: list[list[Path]] = []
    places: set[str] = set()
    for file in given.files:
        of_file = [template.replace(_REDUCTION, name) for name in names]
        targets.append([Path(each.replace(_STEM, Path(file).stem)) for each in of_file])
        for path in targets[-1]:
            place = os.path.realpath(path)
            if place in places:
                raise InvalidArgumentError(
                    f"'{path}': several input files would be written to this output; run files of "
                    f"the same name one by one"
                )
            places.add(place)
            _check(path, given, _REDUCTION in template)
    return targets


def _template(n_names: int, given: Namespace) -> str | None:
    """Where results go, with the places of names in it."""
    template: str | None = given.output
    if template is None:
        return None
    is_known = any(template.lower().endswith(ending) for ending in WRITERS)
    if template.endswith(("/", os.sep)) or (not is_known and Path(template).is_dir()):
        stem = f"{_STEM}-" if len(given.files) > 1 and _STEM not in template else ""
        template = os.path.join(template, f"{stem}{_REDUCTION}.h5")
    if n_names > 1 and _REDUCTION not in template:
        raise InvalidArgumentError(
            f"{n_names} reductions would be written to one output, '{template}'; name a folder, "
            f"as in -o out/, or files in it: -o 'out/{_REDUCTION}.npz'"
        )
    if len(given.files) > 1 and _STEM not in template:
        raise InvalidArgumentError(
            f"several input files would be written to this output; put {_STEM} into its name"
        )
    return template


def _check(path: Path, given: Namespace, makes_folder: bool) -> None:
    """Refuse a place that is taken, has no folder, or is among what is read or in Zarr.

    The latter's folders hold nothing else.
    """
    ending_of(path)
    if not given.force and os.path.lexists(path):
        raise InvalidArgumentError(
            f"'{path}': the output exists; choose another name, or replace it with --force"
        )
    there = path.parent
    if makes_folder and not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise InvalidArgumentError(
            f"'{there}': the output's directory does not exist; create it first"
        )
    folder = path.parent.resolve()
    hint = "choose a place outside of it for the result"
    if folder.is_dir() and any(Path(file).resolve() == folder for file in given.files):
        raise InvalidArgumentError(f"'{path}' would be in a folder that is read; {hint}")
    for above in (folder, *folder.parents):
        if any((above / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup")):
            raise InvalidArgumentError(
                f"'{path}' would be in a Zarr array or group, '{above}'; {hint}"
            )


def check_not_read(paths: Iterable[Path], inputs: Iterable[str | Path]) -> None:
    """Refuse to replace one of the files that are read, or a folder with one.

    Raises
    ------
    InvalidArgumentError
        Names it.
    """
    read = {Path(file).resolve() for file in inputs}
    read |= {folder for file in read for folder in file.parents}
    for path in paths:
        if path.exists() and path.resolve() in read:
            raise InvalidArgumentError(
                f"'{path}': the output is one of the input files; choose another name for the "
                f"result"
            )


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Makes a folder; one that is empty at the end goes."""
    is_new = not folder.exists()
    if is_new:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise FileAccessError(f"could not make the folder '{folder}': {error}") from None
    try:
        yield
    finally:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
