"""PPO from pixels. The simulator runs on the GPU too, the rollout buffer is allocated once."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ENVS, HORIZON, ACTIONS, EPOCHS, MINIBATCHES = 96, 40, 18, 2, 4


class Simulator:
    """stands for a batched game on the GPU"""

    def reset(self):
        return torch.zeros(ENVS, 4, 84, 84, dtype=torch.uint8, device="cuda")

    def step(self, action):
        frames = torch.randint(0, 256, (ENVS, 4, 84, 84), dtype=torch.uint8, device="cuda")
        reward = torch.randn(ENVS, device="cuda")
        done = torch.zeros(ENVS, device="cuda")
        return frames, reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
        self.actor, self.critic = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, obs):
        h = self.body(obs.float() / 255)
        return self.actor(h), self.critic(h).squeeze(-1)


class Rollout:
    def __init__(self):
        self.obs = torch.zeros(HORIZON, ENVS, 4, 84, 84, dtype=torch.uint8, device="cuda")
        self.actions = torch.zeros(HORIZON, ENVS, dtype=torch.long, device="cuda")
        self.logp, self.rewards, self.dones, self.values = (torch.zeros(HORIZON, ENVS, device="cuda") for _ in range(4))


@torch.no_grad()
def collect(sim, net, buf, obs):
    for t in range(HORIZON):
        logits, value = net(obs)
        logp_all = F.log_softmax(logits, dim=-1)
        action = torch.multinomial(logp_all.exp(), 1).squeeze(-1)
        buf.obs[t], buf.actions[t], buf.values[t] = obs, action, value
        buf.logp[t] = logp_all.gather(1, action.unsqueeze(1)).squeeze(1)
        obs, buf.rewards[t], buf.dones[t] = sim.step(action)
    return obs


@torch.no_grad()
def advantages(net, buf, obs, gamma=0.99, lam=0.95):
    last_value = net(obs)[1]
    adv, running = torch.zeros_like(buf.rewards), 0
    for t in reversed(range(HORIZON)):
        following = last_value if t == HORIZON - 1 else buf.values[t + 1]
        delta = buf.rewards[t] + gamma * following * (1 - buf.dones[t]) - buf.values[t]
        running = delta + gamma * lam * (1 - buf.dones[t]) * running
        adv[t] = running
    return adv, adv + buf.values


def update(net, opt, buf, adv, ret):
    flat_obs, flat_actions = buf.obs.flatten(0, 1), buf.actions.flatten()
    flat_logp, adv, ret = buf.logp.flatten(), adv.flatten(), ret.flatten()
    for epoch in range(EPOCHS):
        order = torch.randperm(HORIZON * ENVS, device="cuda")
        for idx in order.chunk(MINIBATCHES):
            obs, a, old, advantage, target = flat_obs[idx], flat_actions[idx], flat_logp[idx], adv[idx], ret[idx]
            logits, value = net(obs)
            logp_all = F.log_softmax(logits, dim=-1)
            logp = logp_all.gather(1, a.unsqueeze(1)).squeeze(1)
            ratio = (logp - old).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            policy_loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
            loss = policy_loss + 0.5 * F.mse_loss(value, target) - 0.01 * entropy
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.cuda.memory._record_memory_history(max_entries=500000)
    net = ActorCritic().cuda()
    opt = torch.optim.Adam(net.parameters(), lr=2.5e-4, eps=1e-5)
    sim, buf = Simulator(), Rollout()
    obs = sim.reset()
    for it in range(3):
        obs = collect(sim, net, buf, obs)
        adv, ret = advantages(net, buf, obs)
        loss = update(net, opt, buf, adv, ret)
        print(f"iteration {it} loss {loss:.4f} reward {buf.rewards.mean().item():.3f} gpu {torch.cuda.max_memory_allocated() / 1e6:.0f} MB")
    torch.cuda.memory._dump_snapshot("ppo.pickle")
