_hooks = []


def register_optimizer_step_post_hook(hook):
    _hooks.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.state = {p: {} for p in parameters}

    def step(self):
        for hook in _hooks:
            hook(self, (), {})
