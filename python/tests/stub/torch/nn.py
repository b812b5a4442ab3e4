class Module:
    def __init__(self):
        self._parameters, self._buffers, self._modules = {}, {}, {}

    def __getattr__(self, name):
        raise AssertionError(f"the program's own __getattr__ was asked for {name}")
