"""Many repositories: clone, analyse, commit, push; killed at any moment, nothing is lost or done twice.

The parts, and what passes between them:

- `model.py`: all that crosses a border, as frozen dataclasses that can be pickled. A `Job` describes one
  repository (or one shard of a monorepo) with the `Settings` of its campaign; an `Outcome` is what a step
  says of it; an `Artefact` is a file of the result, in memory.
- `steps.py`: the work on one repository. A step is a function of `(job, folder, head)` -> `Outcome`, where
  `folder` is an empty or left-over scratch folder of this repository alone, on the machine that the step
  runs on, and `head` is None for `clone` and the previous outcome's `head` for `analyse`. Steps read and write nothing
  but their folder (and the source), raise nothing that is foreseen, and give the same outcome for the same
  inputs on every machine, but for `seconds`. `NEXT` names the order; `whole(job, folder)` runs them one after
  the other.
- `state.py`: the SQLite file; `folders.py`: where things are in the folder of a campaign, and the only
  module here that opens files. Only the driver writes either.
- `driver.py`: pending jobs -> a `Pool` -> outcomes -> state. `Pool` is a protocol: `size`, `submit(step
  name, job, head) -> Future[Outcome]`, `lost(job)` after a worker has died, and `close()`. A step is recorded
  before it is submitted and after it has ended, in one transaction with its outcome. An outcome whose state
  is "analysing" asks for the next step; any other state is final.
- `local.py`: the pool of processes on this machine. `cluster.py`: the pool of a dask cluster; `onworker.py` is what
  runs there: all steps of a repository, in a `LocalPool` of the worker.
- `summary.py`: what a report says; `exports.py`: CSV, JSON and Markdown of it (the page is in review/html).
- `git.py`, `children.py`, `trees.py`: git as a hostile repository must meet it; see their docstrings.
- `campaigns.py`: a campaign from its beginning; `schema.py`: its tables; `showing.py`: its state as lines;
  `refreshing.py`: whose head has moved. `analysing.py`: from files to findings, verification, commit.
- `sources.py`, `shards.py`: what `--repos` names; `commits.py`, `messages.py`: the commit and its words;
  `verifying.py`: the programs that the user asked to be run; `pushing.py`: branches and pull requests.
"""
