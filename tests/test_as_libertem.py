"""``import libertem…`` means framefold after install_as_libertem(), and only then.

What these tests change holds for a process, so each of them has one of its own.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def python(code: str, folder: Path) -> str:
    """Run code in a new interpreter that can import what is in ``folder``; what it prints."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def other_libertem(tmp_path: Path) -> Path:
    """A folder with a package of that name that is not framefold."""
    package = tmp_path / "libertem"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = 'other'\n")
    (package / "udf.py").write_text("UDF = 'other'\n")
    return tmp_path


def test_every_module_has_one_identity(tmp_path: Path) -> None:
    printed = python(
        """
        import importlib, pkgutil
        import framefold
        framefold.install_as_libertem()
        n = 0
        for info in pkgutil.walk_packages(framefold.__path__, "framefold."):
            alias = info.name.replace("framefold", "libertem", 1)
            try:
                module = importlib.import_module(alias)
            except ImportError as error:
                # Only for a library that framefold can do without.
                missing = (error.name or "framefold").partition(".")[0]
                assert missing not in ("framefold", "libertem"), (alias, error)
                continue
            own = importlib.import_module(info.name)
            assert module is own and sys.modules[alias] is own, alias
            assert own.__name__ == own.__spec__.name == info.name
            n += 1
        print(n)
        """,
        tmp_path,
    )
    assert int(printed) > 40


def test_classes_functions_and_exceptions_are_the_same(tmp_path: Path) -> None:
    python(
        """
        import framefold
        framefold.install_as_libertem()
        # The alias first: framefold.udf.com was not imported by this name before.
        import libertem.udf.com
        from libertem.api import Context
        from libertem.udf import UDF
        from libertem.udf.base import UDF as UDF2
        from libertem import masks
        from libertem.exceptions import UDFRunCancelled
        import framefold.exceptions, framefold.masks, framefold.udf.com
        assert Context is framefold.Context
        assert UDF is UDF2 is framefold.UDF
        assert libertem.udf.com is framefold.udf.com
        assert masks is framefold.masks
        assert UDFRunCancelled is framefold.exceptions.UDFRunCancelled
        """,
        tmp_path,
    )


def test_a_udf_written_for_libertem_runs_and_is_pickled(tmp_path: Path) -> None:
    (tmp_path / "published.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from libertem.udf import UDF

            class Brightest(UDF):
                def get_result_buffers(self):
                    return {"value": self.buffer(kind="nav", dtype="float32")}

                def process_frame(self, frame):
                    self.results.value[:] = np.max(frame)
            """
        )
    )
    python(
        """
        import pickle
        import numpy as np
        import framefold as ff
        ff.install_as_libertem()
        from published import Brightest
        import libertem.api as lt
        data = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
        for executor in "inline", "threads":
            ctx = lt.Context.make_with(executor)
            dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=2)
            assert isinstance(Brightest(), ff.UDF)
            udf = pickle.loads(pickle.dumps(Brightest()))
            result = ctx.run_udf(dataset=dataset, udf=udf)
            assert np.array_equal(result["value"], data.max(axis=(2, 3)))
        """,
        tmp_path,
    )


def test_the_package_itself(tmp_path: Path) -> None:
    python(
        """
        import framefold
        framefold.install_as_libertem()
        assert "libertem" not in sys.modules
        import libertem
        assert libertem is not framefold
        # What packages check for is a version of the interface.
        assert tuple(map(int, libertem.__version__.split("."))) >= (0, 14, 0)
        assert framefold.__version__ != libertem.__version__
        assert libertem.Context is framefold.Context and "Context" in dir(libertem)
        from libertem import UDF
        assert UDF is framefold.UDF
        try:
            libertem.nothing
        except AttributeError as error:
            assert "'libertem' has no attribute 'nothing'" in str(error), error
        else:
            raise AssertionError("an attribute that does not exist was found")
        """,
        tmp_path,
    )


def test_again_does_nothing(tmp_path: Path) -> None:
    python(
        """
        import framefold
        before = len(sys.meta_path)
        framefold.install_as_libertem()
        import libertem.udf
        framefold.install_as_libertem()
        assert len(sys.meta_path) == before + 1
        import libertem.udf as again
        assert again is framefold.udf
        """,
        tmp_path,
    )


@pytest.mark.parametrize("name", ["libertem.nothing", "libertem.udf.nothing"])
def test_a_module_that_framefold_lacks_is_named(name: str, tmp_path: Path) -> None:
    python(
        f"""
        import importlib
        import framefold
        framefold.install_as_libertem()
        try:
            importlib.import_module({name!r})
        except ModuleNotFoundError as error:
            assert error.name == {name!r}, error.name
            assert "no module named {name!r}" in str(error), error
            assert {name.replace("libertem", "framefold")!r} in str(error), error
        else:
            raise AssertionError("found")
        assert {name!r} not in sys.modules
        """,
        tmp_path,
    )


def test_a_library_that_a_module_needs_is_named_itself(tmp_path: Path) -> None:
    python(
        """
        import framefold
        framefold.install_as_libertem()
        module = framefold.__path__[0]
        # As if a module of framefold needed something that is not installed.
        framefold.__path__.append(sys.path[0])
        with open(sys.path[0] + "/needy.py", "w") as file:
            file.write("import not_installed_anywhere")
        try:
            import libertem.needy
        except ModuleNotFoundError as error:
            assert error.name == "not_installed_anywhere", error
        else:
            raise AssertionError("found")
        """,
        tmp_path,
    )


def test_it_refuses_when_another_one_is_imported(other_libertem: Path) -> None:
    python(
        """
        import libertem.udf
        import framefold
        from framefold.exceptions import InvalidArgumentError
        before = list(sys.meta_path)
        try:
            framefold.install_as_libertem()
        except InvalidArgumentError as error:
            message = str(error)
            assert "'libertem' is already imported" in message, message
            assert libertem.__file__ in message and "before" in message, message
        else:
            raise AssertionError("not refused")
        assert sys.meta_path == before
        assert libertem.udf.UDF == "other"
        """,
        other_libertem,
    )


def test_it_takes_precedence_over_one_that_is_only_installed(other_libertem: Path) -> None:
    python(
        """
        import framefold
        framefold.install_as_libertem()
        from libertem.udf import UDF
        assert UDF is framefold.UDF
        """,
        other_libertem,
    )


def test_nothing_happens_without_the_call(other_libertem: Path) -> None:
    python(
        """
        before = list(sys.meta_path)
        import framefold
        assert not [finder for finder in sys.meta_path if "framefold" in type(finder).__module__]
        import libertem.udf
        assert libertem.__version__ == "other" and libertem.udf.UDF == "other"
        """,
        other_libertem,
    )


def test_names_that_only_begin_alike_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "libertem_other.py").write_text("value = 5\n")
    python(
        """
        import framefold
        framefold.install_as_libertem()
        import libertem_other
        assert libertem_other.value == 5
        """,
        tmp_path,
    )


def test_modules_stay_intact(tmp_path: Path) -> None:
    python(
        """
        import importlib
        import importlib.util
        import framefold
        import framefold.udf.sum
        spec, loader = framefold.udf.sum.__spec__, framefold.udf.sum.__loader__
        framefold.install_as_libertem()
        import libertem.udf.sum
        assert framefold.udf.sum.__spec__ is spec and framefold.udf.sum.__loader__ is loader
        assert importlib.util.find_spec("libertem.udf.com") is not None
        # Looking for a module imports neither it nor its counterpart.
        assert "libertem.udf.com" not in sys.modules
        assert importlib.reload(framefold.udf.sum) is sys.modules["libertem.udf.sum"]
        """,
        tmp_path,
    )


def test_modules_below_those_that_are_one_module_here(tmp_path: Path) -> None:
    python(
        """
        import framefold
        framefold.install_as_libertem()
        from libertem.io.dataset.base.exceptions import DataSetException
        from libertem.io.dataset.base.backend import IOBackend
        from libertem.io.dataset.base.backend_mmap import MMapBackend
        import libertem.io.dataset.base.tiling as tiling
        from libertem.io.dataset.base.tiling_scheme import TilingScheme
        from framefold.io.dataset import base
        assert (DataSetException, IOBackend) == (base.DataSetException, base.IOBackend)
        assert (MMapBackend, TilingScheme) == (base.MMapBackend, base.TilingScheme)
        assert tiling.DataTile is base.DataTile
        for name in ("libertem.io.dataset.base.nothing", "libertem.udf.sum.nothing.more"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                assert "stands in for libertem" in str(error), error
                assert "docs/compatibility.md says what to use instead" in str(error), error
            else:
                raise AssertionError(name)
        """,
        tmp_path,
    )


def test_several_threads_may_import_at_once(tmp_path: Path) -> None:
    python(
        """
        from concurrent.futures import ThreadPoolExecutor
        from importlib import import_module
        from threading import Barrier
        import framefold
        framefold.install_as_libertem()
        barrier = Barrier(8)
        def load(i):
            barrier.wait()
            return import_module(("libertem" if i % 2 else "framefold") + ".analysis.raw")
        with ThreadPoolExecutor(8) as pool:
            modules = list(pool.map(load, range(8)))
        assert len(set(map(id, modules))) == 1
        """,
        tmp_path,
    )
