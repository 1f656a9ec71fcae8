# Runs in the guest, on /dev/vda: reads 4 KiB at random, one at a time. ARGS: seconds. Says when it
# begins and ends, and "@@RESULT reads/s p99-in-ms".
set -eu
echo "@@BEGIN"
fio --name=reader --filename=/dev/vda --direct=1 --ioengine=psync --rw=randread --bs=4k \
  --norandommap --time_based --ramp_time=3 --runtime="$ARGS" --output-format=terse \
  --terse-version=3 > /tmp/terse
echo "@@END"
rate=$(cut -d ';' -f 8 /tmp/terse)
p99=$(tr ';' '\n' < /tmp/terse | sed -n 's/^99\.000000%=//p' | head -n 1)
echo "@@RESULT $rate $((p99 / 1000))"
