# Pairs of a serial and a path. Nothing stands in /etc/fstab: what a VM has no more is not waited for.
is_blank() {
    blkid -p "$1" >/dev/null 2>&1
    [ $? -eq 2 ] || return 1
    found=$(wipefs -n -p "$1" 2>/dev/null) || return 1
    [ -z "$found" ] || return 1
    cmp -s -n 1048576 "$1" /dev/zero
}
disk_of() {
    for of in /sys/block/*/serial; do
        [ -r "$of" ] && [ "$(cat "$of")" = "$1" ] || continue
        of=${of%/serial}
        echo "/dev/${of##*/}"
        return
    done
    return 1
}
mount_at() {
    for _ in 1 2 3 4 5; do
        disk=$(disk_of "$1") && break
        sleep 1
    done
    if [ -z "$disk" ]; then
        echo "kite: there is no disk with the serial $1 for $2" >&2
        return
    fi
    new=
    if is_blank "$disk"; then mkfs.ext4 -q "$disk" </dev/null && new=yes; fi
    type=$(blkid -o value -s TYPE "$disk" 2>/dev/null)
    mkdir -p "$2"
    mountpoint -q "$2" || mount ${type:+-t "$type"} "$disk" "$2" || {
        echo "kite: $disk is not mounted at $2: it is neither blank nor has a file system" >&2
        return
    }
    if [ "$new" ]; then restorecon "$2" 2>/dev/null; fi
    # What it has grown by.
    case $type in
        ext4) resize2fs "$disk" >/dev/null 2>&1 ;;
        xfs) xfs_growfs "$2" >/dev/null 2>&1 ;;
    esac
}
while [ $# -ge 2 ]; do
    mount_at "$1" "$2"
    shift 2
done
