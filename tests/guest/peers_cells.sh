# The cells of the comparison with Linux's schedulers (peers.sh), sourced on the host and in the
# guest.

# cells KIND: the cells for a kind of drive, one a line: a name, and for each client its share in
# percent and its load. Flash has long requests, as the guest's emulated processor asks for fewer
# short ones than such a drive serves.
cells() {
  case $1 in
    mechanical) echo '
random-16-one 50:random16 50:random1
random-16-pausing 50:random16 50:pausing
random-16-sequential-4k 50:random16 50:sequential4k
random-16-sequential-1m 50:random16 50:sequential1m
five 20:random16 20:random1 20:pausing 20:sequential4k 20:sequential1m
database-backup 30:database 70:sequential1m
database-writes 30:database 70:writes16
writes-16-one 50:writes16 50:writes1
' ;;
    flash) echo '
long-16-one 50:long16 50:long1
long-16-16 80:long16 20:long16
long-16-pausing 50:long16 50:pausing
long-16-sequential-1m 50:long16 50:sequential1m
long-16-writes 50:long16 50:longwrites16
long-writes-16-one 50:longwrites16 50:longwrites1
five 20:long16 20:long1 20:pausing 20:sequential1m 20:longwrites16
database-backup 30:database 70:sequential1m
' ;;
    *) echo "an unknown kind of drive: $1" >&2; return 2 ;;
  esac
}

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
    long16) echo "--rw=randread --bs=128k --ioengine=libaio --iodepth=16" ;;
    long1) echo "--rw=randread --bs=128k --ioengine=libaio --iodepth=1" ;;
    longwrites16) echo "--rw=randwrite --bs=128k --ioengine=libaio --iodepth=16" ;;
    longwrites1) echo "--rw=randwrite --bs=128k --ioengine=libaio --iodepth=1" ;;
    database) echo "--rw=randwrite --bs=4k --ioengine=psync --fsync=1" ;;
    *) echo "an unknown load: $1" >&2; return 2 ;;
  esac
}

# long_request LOAD: the bytes of a load's request if it is its rate in bytes that limits it.
long_request() {
  case $1 in
    sequential1m) echo 1048576 ;;
    long*) echo 131072 ;;
  esac
}
