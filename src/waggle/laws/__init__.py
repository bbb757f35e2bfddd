"""Decision sources: everything that answers a View with a Decision (paper Section 3.2).

Read `controls` first: the three smallest laws. `moves` holds what rule-based laws share; `relay`,
`heuristic` and `ports` are built from it, and so is the teacher in `expert/`, whose rules in
`exchange`, `places` and `countdown` serve the hand-written controls as well. `local` runs a
language model in this process (`dialogue` makes its prompts, `piecewise` tokenizes them, `spelling`
gives constrained answers their grammar). `chat` asks an endpoint through the client in `endpoint`,
in a protocol of `wire`, and keeps answers in `replies`. `shipped`, `origin` and `digest` say which
trained folder a law comes from and which weights it has.
"""
