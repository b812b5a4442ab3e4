import torch
import torch.nn as nn

policy = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 9)).cuda()
optimizer = torch.optim.Adam(policy.parameters(), 3e-4)
for iteration in range(4):
    observations, actions, logps = [], [], []
    observation = torch.randn(128, 32, device="cuda")
    for t in range(32):
        with torch.no_grad():
            out = policy(observation)
            choice = torch.distributions.Categorical(logits=out[:, :8])
            action = torch.zeros(128, dtype=torch.long, device="cuda")
            observations.append(observation)
            actions.append(action)
            logps.append(choice.log_prob(action))
            observation = torch.randn(128, 32, device="cuda")
    seen, done, old = torch.cat(observations), torch.cat(actions), torch.cat(logps)
    for epoch in range(2):
        for part in torch.arange(len(seen), device="cuda").chunk(4):
            out = policy(seen[part])
            ratio = (torch.distributions.Categorical(logits=out[:, :8]).log_prob(done[part]) - old[part]).exp()
            loss = -(ratio * torch.randn_like(ratio)).mean() + out[:, 8].square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
