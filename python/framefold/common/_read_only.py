"""Lists and dicts that cannot be changed, as changing them would have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from framefold.exceptions import ReadOnlyError

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyDict(dict[K, V]):
    """A dict that refuses changes, and says what to do instead; copies are plain dicts.

    Parameters
    ----------
    items
        What is in it.
    instead
        What to do instead of a change, as the end of a sentence.
    on
        What a change would have to have an effect on.
    """

    _instead: str
    _on: str

    def __init__(
        self,
        items: Mapping[K, V] | Iterable[tuple[K, V]],
        instead: str = "change a copy",
        on: str = "the data set",
    ) -> None:
        super().__init__(items)
        vars(self).update(_instead=instead, _on=on)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError(f"a change here has no effect on {self._on}; {self._instead}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class ReadOnlyList(list[V]):
    """A list that refuses changes, and says what to do instead; copies are plain lists."""

    def __init__(self, items: Iterable[V], instead: str = "change a copy") -> None:
        super().__init__(items)
        self._instead = instead

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError(f"a change here has no effect on the data set; {self._instead}")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = _refuse
    clear = pop = sort = reverse = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
