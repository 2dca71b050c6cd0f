"""Makes the class of a format from its row in the table."""

from __future__ import annotations

from inspect import Parameter, Signature
from textwrap import fill
from typing import Any

from framefold.io.dataset._calibration import FACTS
from framefold.io.dataset._file import CLASSES, FORMER, NO_EFFECT, REFUSED, FileDataSet
from framefold.io.dataset._table import FormatRow, Option, format_rows

__all__ = ["built_in", "class_from"]

#: What else ``dm`` is called in the reference: module, name, order and documentation.
OF_DM = (
    (
        "dm",
        "StackedDMDataSet",
        "files scan_size same_offset nav_shape sig_shape sync_offset io_backend num_partitions",
        "A stack of DigitalMicrograph files with one frame each, in the order of the list.",
    ),
    (
        "dm_single",
        "SingleDMDataSet",
        "path nav_shape sig_shape sync_offset io_backend force_c_order dataset_index "
        "num_partitions",
        "One DigitalMicrograph file with all frames.",
    ),
)


#: The annotations of what :meth:`DataSet.calibrate` takes, where these say more than ``Any``.
ANNOTATIONS = {"centre": "Sequence[float] | None", "names": "Sequence[str] | None"}


def built_in() -> dict[str, type[FileDataSet]]:
    """The classes of the formats of the engine, by their names."""
    rows = format_rows()
    classes = {}
    for filetype, (module, name, order) in CLASSES.items():
        row = rows[filetype]
        about = f"Data sets of {row.title} files."
        classes[name] = class_from(row, name, f"framefold.io.dataset.{module}", order, about)
    for module, name, order, about in OF_DM:
        base = classes["DMDataSet"]
        dotted = f"framefold.io.dataset.{module}"
        classes[name] = class_from(rows["dm"], name, dotted, order, about, base)
    return classes


def class_from(
    row: FormatRow,
    name: str,
    module: str,
    order: str,
    about: str,
    base: type[FileDataSet] = FileDataSet,
    **members: Any,
) -> type[FileDataSet]:
    """The class of a format: its constructor takes the options of its row.

    ``order`` are the names of what may be given without one, the path first.
    """
    names = tuple(order.split())
    signature = Signature(parameters(row, names), return_annotation=None)

    def __init__(self: FileDataSet, *values: Any, **options: Any) -> None:  # noqa: N807
        FileDataSet.__init__(self, *values, **options)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{name}.__init__"
    __init__.__module__ = module
    text = "\n".join([about, "", *_described(signature, row)])
    members = {**members, "filetype": row.name, "_order": names, "__init__": __init__}
    return type(name, (base,), {**members, "__module__": module, "__doc__": text})


def parameters(row: FormatRow, order: tuple[str, ...]) -> list[Parameter]:
    """``self``, what may be given without a name, other options of the row, and calibrations."""
    options = {option.name: option for option in row.options if option.name != "files"}
    aliases = {option.alias: option.name for option in row.options if option.alias}
    found = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for name in order:
        option = options.pop(aliases.get(name, name), None)
        default, annotation = None, "object"
        if option is not None:
            default, annotation = option.default, option.annotation
        elif name in FORMER:
            annotation = options[FORMER[name]].annotation if FORMER[name] in options else annotation
            annotation = annotation if annotation != "object" else "tuple[int, ...] | None"
        elif len(found) == 1:
            default, annotation = Parameter.empty, "str | PathLike[str]"
            many = "Sequence[str | PathLike[str]]"
            annotation = many if name == "files" else f"{annotation} | {many}"
        found.append(
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
        )
    for option in options.values():
        found.append(
            Parameter(
                option.name,
                Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=option.annotation,
            )
        )
    for name in (name for name in FACTS if name not in options):
        annotation = ANNOTATIONS.get(name, "Any")
        found.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return found


def _described(signature: Signature, row: FormatRow) -> list[str]:
    """The section of parameters of a docstring."""
    options: dict[str, Option] = {}
    for option in row.options:
        options |= {option.name: option, option.alias or option.name: option}
    lines = ["Parameters", "----------"]
    for name, parameter in list(signature.parameters.items())[1:]:
        lines.append(f"{name} : {parameter.annotation}")
        if name in options:
            about = options[name].described
        elif name in FORMER:
            about = f"The former name of ``{FORMER[name]}``."
        elif name in NO_EFFECT:
            about = "Of no effect: how data are cut is the engine's choice."
        elif name in REFUSED:
            about = f"Not taken: {REFUSED[name]}."
        elif name == "io_backend":
            about = "Of no effect: there is one way to read it, and ``'buffered'`` is refused."
        elif name == "files":
            about = "The files, in the order of their frames."
        elif name in FACTS:
            about = "As for ``calibrate``: what the file does not say of its axes."
        else:
            about = "The file, or a folder, a pattern or a list of files that make up a stack."
        lines.append(fill(about, 92, initial_indent="    ", subsequent_indent="    "))
    return lines
