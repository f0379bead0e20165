#!/usr/bin/env bash
# Runs a command beside a real Slurm of one node with two fake GPUs, which it
# starts from Debian's packages and stops again. Needs root.
#
#   scripts/slurm_node.sh COMMAND…
set -euo pipefail
for name in munged slurmctld slurmd sbatch; do
	if ! command -v "$name" >/dev/null; then
		echo "there is no $name: apt-get install --no-install-recommends slurm-wlm munge" >&2
		exit 2
	fi
done
if [ "$(id -u)" != 0 ]; then
	echo "the daemons of Slurm are started as root" >&2
	exit 2
fi
work=$(mktemp -d)
chmod 755 "$work"
mkdir "$work/state" "$work/spool" "$work/munge"
chown munge: "$work/munge" 2>/dev/null || true
chmod 711 "$work/munge" # munged wants to be reached, and no one else to write
host=$(hostname -s)
pids=()
stop() {
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap stop EXIT

# Character devices that nothing minds: plain files are refused as GPUs.
for gpu in 0 1; do
	mknod "$work/gpu$gpu" c 1 3
done
dd if=/dev/urandom of="$work/munge.key" bs=1024 count=1 2>/dev/null
chown munge: "$work/munge.key"
chmod 400 "$work/munge.key"
chown munge: "$work/munge"
echo "Name=gpu File=$work/gpu[0-1]" >"$work/gres.conf"
cat >"$work/slurm.conf" <<CONF
ClusterName=floodmark
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
SlurmctldPort=26817
SlurmdPort=26818
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=2
MinJobAge=60
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf

runuser -u munge -- munged --foreground --key-file="$work/munge.key" --socket="$work/munge/socket" \
	--pid-file="$work/munge/pid" --seed-file="$work/munge/seed" >"$work/munged.log" 2>&1 &
pids+=($!)
for _ in $(seq 50); do
	[ -S "$work/munge/socket" ] && break
	sleep 0.1
done
slurmctld -D -i >"$work/slurmctld.log" 2>&1 &
pids+=($!)
slurmd -D -N "$host" >"$work/slurmd.log" 2>&1 &
pids+=($!)
ready=
for _ in $(seq 60); do
	state=$(timeout 2 sinfo --noheader --format=%T 2>/dev/null || true)
	case $state in
	idle*) ready=yes && break ;;
	inval* | down* | unk*) scontrol update "nodename=$host" state=resume 2>/dev/null || true ;;
	esac
	sleep 0.2
done
if [ -z "$ready" ]; then
	echo "the node of Slurm did not come up (${state:-no answer}):" >&2
	tail -n 20 "$work/slurmctld.log" "$work/slurmd.log" "$work/munged.log" >&2
	exit 1
fi
"$@"
