"""What is to be compiled for a run, in full: everything that the machine code depends on."""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

from framefold.compilation.marks import Options, options_of
from framefold.compilation.names import fingerprint, keeps
from framefold.compilation.values import Spec

#: To be raised whenever the code that is generated changes.
GENERATION = 32

#: The first slots of a block: where an exception is found, the first frame of the partition and how
#: many it has, the address of positions under a ROI, and whether there is one.
FAILURE, FIRST, N_FRAMES, POSITIONS, HAS_ROI = range(5)
N_RESERVED = 5


class Member(NamedTuple):
    """A name in ``self.params`` or ``self.task_data``, and the slot where its value begins."""

    name: str
    spec: Spec
    slot: int
    #: Of AUX data the kind of buffer; empty for others.
    aux: str = ""
    #: Of AUX data of kind ``sig`` whether parts for tiles have gaps.
    gaps: bool = False


class Buffer(NamedTuple):
    """A result buffer that workers have."""

    name: str
    kind: str
    dtype: str
    n_extra: int


class Wanted(NamedTuple):
    """All that machine code is made of; nothing in it is a value that changes from run to run."""

    #: Of the class, for messages.
    udf: str
    #: ``frame``, ``frames``, ``tile`` or ``partition``.
    method: str
    sparse: bool
    input_dtype: str
    dataset_dtype: str
    n_nav: int
    n_sig: int
    buffers: tuple[Buffer, ...]
    params: tuple[Member, ...]
    task_data: tuple[Member, ...]
    #: The slots where the shape of the data set begins; it is ``(*nav, *sig)``.
    shape_slot: int
    process: Any
    postprocess: Any
    merge: Any
    #: Marked methods that those may call.
    methods: tuple[tuple[str, FunctionType], ...]
    #: All names of attributes and globals in the code.
    names: frozenset[str]
    #: Whether it is a stage, which gets its one buffer as an argument.
    makes_frames: bool = False

    @property
    def functions(self) -> list[Any]:
        """The functions that are entered from outside."""
        return [f for f in (self.process, self.postprocess, self.merge) if f is not None]

    @property
    def options(self) -> Options:
        """Those of what processes the data."""
        return options_of(self.process) or Options()

    @property
    def keeps(self) -> bool:
        """Whether the machine code may be kept on disk."""
        specs = [member.spec for member in (*self.params, *self.task_data)]
        for spec in specs:  # which grows
            specs += spec.items
        given = [spec.function for spec in specs if spec.function is not None]
        methods = [function for _, function in self.methods]
        return all(map(keeps, (*self.functions, *methods, *given)))

    def key(self, about_numba: str) -> str:
        """What tells it from everything else that may be compiled.

        Raises
        ------
        UncertainError
            If there is no telling.
        """
        functions = [fingerprint(function) for function in self.functions]
        functions += [f"{name}={fingerprint(function)}" for name, function in self.methods]
        plain = (
            GENERATION,
            about_numba,
            functions,
            self.method,
            self.sparse,
            self.input_dtype,
            self.dataset_dtype,
            self.n_nav,
            self.n_sig,
            self.buffers,
            [_plain(member) for member in self.params],
            [_plain(member) for member in self.task_data],
            self.shape_slot,
            sorted(self.names),
            [options_of(function) for function in self.functions],
            self.makes_frames,
        )
        from hashlib import sha256  # which loads a large library

        return sha256(repr(plain).encode()).hexdigest()


def _plain(member: Member) -> tuple[Any, ...]:
    return (member.name, _plain_spec(member.spec), member.slot, member.aux, member.gaps)


def _plain_spec(spec: Spec) -> tuple[Any, ...]:
    function = None if spec.function is None else fingerprint(spec.function)
    items = tuple(_plain_spec(item) for item in spec.items)
    return (*spec[:4], items, spec.text, function)
