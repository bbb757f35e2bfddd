"""Laws: every decision source that maps a View to a Decision (paper Section 3.2).

Read `controls` first; it has the three smallest laws. `moves` has the building blocks of rule-based
laws; `relay`, `heuristic`, `ports` and the teacher in `expert/` are built from it. The expert's
rules in `exchange`, `places` and `countdown` also serve the hand-written controls. `local` runs a
language model in this process (`dialogue` builds its prompts, `piecewise` tokenizes them,
`spelling` provides the grammar of constrained answers). `chat` queries a chat endpoint through the
client in `endpoint`, in a protocol from `wire`, and caches answers in `replies`. `shipped`,
`origin` and `digest` identify the trained folder and the weights of a law.
"""
