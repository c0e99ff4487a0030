# The disk, and what the databases are in.
. ./load.sh
for module in virtio_pci virtio_blk ext4; do modprobe $module || echo "FAIL module $module"; done
disk=/dev/vda
database=/mnt/database
begin_checks
