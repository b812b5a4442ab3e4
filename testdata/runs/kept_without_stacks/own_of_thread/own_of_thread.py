import torch, torch.nn as nn, torch.nn.functional as F
def net(n=4, size=1024):
    return nn.Sequential(*[nn.Linear(size, size) for _ in range(n)]).cuda()
def batch(): return torch.randn(512, 1024).cuda()
import threading, queue
local = threading.local()
def worker(model, todo):
    local.seen = []
    while True:
        x = todo.get()
        if x is None: break
        with torch.no_grad():
            y = model(x)
        local.seen.append(y)
        todo.task_done()
def main():
    todo = queue.Queue(2); model = net()
    t = threading.Thread(target=worker, args=(model, todo)); t.start()
    for step in range(30):
        todo.put(batch())
    todo.put(None); t.join()
main()
