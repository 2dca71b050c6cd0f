"""``python -m framefold``: the ``framefold`` command, where scripts are not on the path."""

from framefold.cli import main

if __name__ == "__main__":
    main()
