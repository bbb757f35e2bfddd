"""Learning from outcomes: any world with a score trains its law, without a teacher.

Read in this order: `config` (what a run is), `start` (the law it begins with), `luck` (a case
sampled several times), `rollout` (episodes that a law plays by sampling) with `decisions` (what
comes back), `credit` and `replays` (what each decision was worth), `losses` (the policy gradient
under the grammar), `imitation` (records that are imitated beside it), `learner` (the loop), `trial`
(paired comparison with the starting law), `controls` (what must not learn) and `fidelity` (whether
a credit says what trying decisions another way says). `runs` reads finished runs, for reports.
"""
