#!/bin/sh
# A session with a running daemon. In another terminal, in a directory of its own:
#
#     printf '[[disk]]\nname = "d0"\ndrive = "hgst-7k8"\n' > plan.toml
#     spindle serve plan.toml
#
# then, in the same directory, this.
set -eu

spindle disk ls
spindle vol create vm1 --disk d0 --size 20GiB --reserve 50% --limit 80%
spindle vol create vm2 --disk d0 --size 20GiB --reserve 30%

# Does another volume fit? Exit code 1 means no, and the message says what does.
spindle admit --dry-run --disk d0 --size 20GiB --reserve 30% || true

# Reduce the reserve of vm1, while it is served.
spindle vol set vm1 --reserve 40%
spindle vol create vm3 --disk d0 --size 20GiB --reserve 30%

# Reserves hold in every half second from now on.
spindle disk set d0 --period 500ms

spindle vol show vm1
spindle vol rm vm2
spindle vol resize vm1 40GiB
spindle vol ls --json
