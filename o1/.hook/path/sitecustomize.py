"""For PyTorch before 2.5, which calls no entry points: start the recorder when `import torch` is done.

Python runs the first `sitecustomize` on its path, so this one runs the next one, which
is the user's or the distribution's, as if it weren't there itself.
"""

import os
import sys


class _AfterTorch(object):
    """Stands among the finders until torch is imported, and starts the recorder behind that."""

    asking = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch" or cls.asking:  # by a finder that asks all others, too
            return None
        cls.asking = True
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    cls._follow(spec.loader)
                    return spec
        finally:
            cls.asking = False
        return None

    @classmethod
    def _follow(cls, loader):
        try:
            execute = loader.exec_module

            def exec_module(module):
                execute(module)
                try:
                    if cls in sys.meta_path:  # only now: who asks for a spec need not import
                        sys.meta_path.remove(cls)
                    import vramscope_hook

                    vramscope_hook.start()
                except Exception:
                    pass

            loader.exec_module = exec_module
        except Exception:
            pass  # an odd loader: PyTorch's own entry point may still call


def _tell():
    """Says that a Python was started which could record."""
    try:
        folder = os.path.join(os.environ["VRAMSCOPE_RUN"], ".hook")
        os.close(os.open(os.path.join(folder, "python"), os.O_CREAT | os.O_WRONLY, 0o600))
    except Exception:
        pass


def _refuse_cpu_only():
    """Ends a Python that was to run on a simulated GPU and whose PyTorch knows no CUDA, before the program starts."""
    try:
        from importlib.util import find_spec

        spec = find_spec("torch")
        if spec is None or not spec.origin:
            return
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as f:
            lines = f.read(10000).splitlines()
        said = {}
        for line in lines:
            name, between, value = line.partition("=")
            if between:
                said[name.partition(":")[0].strip()] = value.strip().strip("'\"")
        if said.get("cuda") == "None":
            from vramscope_hook import simulated

            simulated.refuse(os.environ, simulated.CPU_ONLY.format(version=said.get("__version__", "?")))
    except Exception:
        pass  # asked again once PyTorch is imported


def _run_the_next():
    here = os.path.dirname(os.path.abspath(__file__))
    own = sys.modules.pop("sitecustomize", None)
    places = [i for i, p in enumerate(sys.path) if os.path.abspath(p or ".") == here]
    taken = [(i, sys.path[i]) for i in places]
    for i in reversed(places):
        del sys.path[i]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as e:
        if getattr(e, "name", None) != "sitecustomize":
            raise
    finally:
        for i, p in taken:
            sys.path.insert(i, p)
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


if os.environ.get("VRAMSCOPE_RUN") and sys.version_info >= (3,):  # Python 2 asks finders otherwise
    _tell()
    sys.meta_path.insert(0, _AfterTorch)
    if os.environ.get("VRAMSCOPE_SIMULATE"):
        _refuse_cpu_only()
_run_the_next()
