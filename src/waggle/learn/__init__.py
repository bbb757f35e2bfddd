"""Learning from outcomes: train a law on any world with a score, without a teacher.

Read in this order: `config` (settings of a run), `start` (the starting law), `luck` (a case sampled
several times), `rollout` (sampled episodes) with `decisions` (their decisions as arrays), `credit`
and `replays` (the advantage of each decision), `losses` (the policy gradient under the grammar),
`imitation` (records that are imitated in addition), `updates` (the updates of a batch), `learner`
(the training loop), `trial` (paired comparison with the starting law), `controls` (the law silenced
or held constant) and `fidelity` (correlation of a credit with branched replays). `runs` reads
finished runs, for reports.
"""
