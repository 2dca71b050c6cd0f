"""Names that have no value yet are an error in compiled code, as they are in the interpreter.

Numba takes any number for them. This module imports Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numba
from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.untyped_passes import ReconstructSSA

from framefold.compilation._lowering import HELPER
from framefold.compilation._readonly import put

UNASSIGNED = "a name has no value yet: give it one before the loop, or in all branches"


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def assigned(yes: Any) -> None:
    """Refuse what has not been assigned."""
    if not yes:
        raise UnboundLocalError(UNASSIGNED)


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckAssigned(ReconstructSSA):  # type: ignore[misc]
    """Gives each variable one assignment, as Numba does, and checks those that may have had none.

    For each of these, a variable says whether there was one.
    """

    _name = "framefold_check_assigned"

    def run_pass(self, state: Any) -> bool:
        """Add the checks, then do the rest."""
        blocks = state.func_ir.blocks
        # Numba loses exceptions of loops that it runs in threads of its own.
        unassigned = [] if state.flags.auto_parallel.enabled else list(_unassigned(blocks))
        if unassigned:
            self._check(state.func_ir, unassigned)
        return bool(super().run_pass(state))

    def _check(self, function: Any, unassigned: list[tuple[Any, str]]) -> None:
        first = function.blocks[min(function.blocks)]
        flags = {
            name: first.scope.redefine(f"{name}.assigned", first.loc)
            for name in sorted(_with_sources(function.blocks, {name for _, name in unassigned}))
        }
        for block in function.blocks.values():
            body: list[Any] = []
            if block is first:
                body += (ir.Assign(ir.Const(False, f.loc), f, f.loc) for f in flags.values())
            for statement in block.body:
                loc = statement.loc
                new = partial(put, function, block.scope, body, loc)
                for user, name in unassigned:
                    if user is statement:
                        check = new(ir.Global("assigned", assigned, loc))
                        new(ir.Expr.call(check, (flags[name],), (), loc))
                body.append(statement)
                if isinstance(statement, ir.Assign) and statement.target.name in flags:
                    yes = ir.Const(not _is_nothing(statement.value), loc)
                    value = flags.get(_source(statement), yes)
                    body.append(ir.Assign(value, flags[statement.target.name], loc))
            block.body = body


def _unassigned(blocks: dict[int, Any]) -> Iterator[tuple[Any, str]]:
    """Statements that use what may have had no assignment, and its name."""
    graph = compute_cfg_from_blocks(blocks)
    names = {each.target.name for block in blocks.values() for each in block.find_insts(ir.Assign)}
    first = min(blocks)
    after = dict.fromkeys(blocks, names)
    before = dict(after) | {first: set()}
    changed = True
    while changed:
        changed = False
        for label, block in blocks.items():
            if label != first:
                before[label] = names.intersection(
                    *(after[n] for n, _ in graph.predecessors(label))
                )
            known = set(before[label])
            for statement in block.body:
                _follow(statement, known)
            changed = changed or known != after[label]
            after[label] = known
    for label, block in blocks.items():
        known = set(before[label])
        for statement in block.body:
            for name in sorted(_used(statement) & names - known):
                yield statement, name
            _follow(statement, known)


def _follow(statement: Any, known: set[str]) -> None:
    """Change the names that have a value to those after a statement."""
    if isinstance(statement, ir.Assign):
        source = _source(statement)
        if _is_nothing(statement.value) or (source and source not in known):
            known.discard(statement.target.name)
        else:
            known.add(statement.target.name)


def _with_sources(blocks: dict[int, Any], names: set[str]) -> set[str]:
    """Names, and those that they are copies of."""
    copies = [
        (each.target.name, _source(each))
        for block in blocks.values()
        for each in block.find_insts(ir.Assign)
    ]
    n_names = 0
    while n_names != len(names):
        n_names = len(names)
        names = names | {source for target, source in copies if source and target in names}
    return names


def _is_nothing(value: Any) -> bool:
    """Whether it is what a comprehension keeps of a name that has no value."""
    return isinstance(value, ir.Expr) and value.op == "undef"


def _source(statement: Any) -> str:
    """The name that is given another one by a statement; else nothing.

    That alone is no use: comprehensions keep a name that they use, too, whether or not it has a
    value.
    """
    return str(statement.value.name) if isinstance(statement.value, ir.Var) else ""


def _used(statement: Any) -> set[str]:
    """The names whose values a statement uses."""
    if not isinstance(statement, ir.Assign):
        return set() if isinstance(statement, ir.Del) else {v.name for v in statement.list_vars()}
    value = statement.value
    return {each.name for each in value.list_vars()} if isinstance(value, ir.Inst) else set()
