# The cells of the comparison with Linux's schedulers (peers.sh), sourced on the host and in the
# guest. A cell is a name, and for each client its share in percent and its load.
PEER_CELLS='
random-16-one 50:random16 50:random1
random-16-pausing 50:random16 50:pausing
random-16-sequential-4k 50:random16 50:sequential4k
random-16-sequential-1m 50:random16 50:sequential1m
five 20:random16 20:random1 20:pausing 20:sequential4k 20:sequential1m
database-backup 30:database 70:sequential1m
database-writes 30:database 70:writes16
writes-16-one 50:writes16 50:writes1
'

# load NAME: the options of fio for one client's load.
load() {
  case $1 in
    random16) echo "--rw=randread --bs=4k --ioengine=libaio --iodepth=16" ;;
    random1) echo "--rw=randread --bs=4k --ioengine=libaio --iodepth=1" ;;
    pausing) echo "--rw=randread --bs=4k --ioengine=libaio --iodepth=1 --thinktime=1000" ;;
    sequential4k) echo "--rw=read --bs=4k --ioengine=libaio --iodepth=4" ;;
    sequential1m) echo "--rw=read --bs=1m --ioengine=libaio --iodepth=4" ;;
    writes16) echo "--rw=randwrite --bs=4k --ioengine=libaio --iodepth=16" ;;
    writes1) echo "--rw=randwrite --bs=4k --ioengine=libaio --iodepth=1" ;;
    database) echo "--rw=randwrite --bs=4k --ioengine=psync --fsync=1" ;;
    *) echo "an unknown load: $1" >&2; return 2 ;;
  esac
}
