"""The classes of all formats of the engine; ``_classes.pyi`` has their signatures."""

from framefold.io.dataset._factory import built_in

globals().update(built_in())
