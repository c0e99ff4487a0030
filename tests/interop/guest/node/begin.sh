# The network, and what the host's side of NVMe/TCP wants.
. ./fabric.sh
. ./kv.sh
. ./keys.sh
for module in virtio_pci virtio_net nvme-tcp ext4; do modprobe $module || echo "FAIL module $module"; done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
echo "$HOST_NQN" >/etc/nvme/hostnqn
echo "${HOST_NQN##*:}" >/etc/nvme/hostid
# The first makes the connection that others use.
ALWAYS=discover
