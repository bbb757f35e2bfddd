"""The official SwarmBench simulator: levels, physics, rules, stored states."""
