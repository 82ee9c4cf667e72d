#!/usr/bin/env bash
# avx512.sh <program> [<argument>...]
# Runs a static program on an emulated processor that has AVX-512, and ends with its exit status; 125 means that the
# emulation failed. README.md beside this file says more.
set -euo pipefail

# Addresses in the emulated memory, and its size. The kernel is built to lie at 16 MiB.
kernel_at=$((16 << 20)) initramfs_at=$((128 << 20)) memory=$((512 << 20))
# What Bochs comes to; only the emulated clock depends on it.
instructions_per_second=50000000

fail() {
  echo "avx512.sh: $*" >&2
  exit 125
}

[ $# -ge 1 ] || fail "usage: avx512.sh <program> [<argument>...]"
[ -x "$1" ] || fail "$1 is no program"
for tool in bochs:bochs-term lz4:lz4 cpio:cpio c++:g++ ld:binutils; do
  command -v "${tool%:*}" >/dev/null || fail "${tool%:*} is missing: apt-get install ${tool#*:}"
done
here=$(dirname "$(readlink -f "$0")")
program=$(readlink -f "$1")
shift
cache=${HEED_EMULATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/heed-emulate}
seconds=${HEED_EMULATE_SECONDS:-1800}

work=$(mktemp -d)
trap 'kill %% 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$cache"
cd "$work"

# bytes <file> <offset> <count> <type>: numbers in a binary file.
bytes() { od -An -v -j "$2" -N "$3" -t "$4" "$1"; }

# Debian's kernel for virtual machines as it lies in memory; its package is unpacked, not installed.
fetch_kernel() {
  local package image sectors offset size
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)/\1/p')
  [ -n "$package" ] || fail "apt does not know linux-image-cloud-amd64: apt-get update"
  apt-get -qq -o APT::Sandbox::User=root download "$package" >&2 || fail "could not download $package"
  dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --wildcards './boot/vmlinuz-*'
  image=$(echo boot/vmlinuz-*)
  # The header of this file says where in it the kernel lies, compressed; the last four bytes are its size.
  sectors=$(bytes "$image" $((0x1f1)) 1 u1)
  read -r offset size < <(bytes "$image" $((0x248)) 8 u4)
  dd if="$image" of=compressed bs=1M iflag=skip_bytes,count_bytes status=none \
    skip=$(((sectors + 1) * 512 + offset)) count=$((size - 4))
  [ "$(bytes compressed 0 4 x4)" = " 184c2102" ] || fail "$package is not compressed with lz4"
  lz4 -qdc compressed >vmlinux
  LC_ALL=C readelf -h vmlinux | grep -q "Entry point address: *$(printf '0x%x' $kernel_at)$" ||
    fail "$package does not begin at $kernel_at"
  objcopy -O binary vmlinux kernel
  mv kernel "$cache/kernel.$$" && mv "$cache/kernel.$$" "$cache/kernel.bin"
}
[ -s "$cache/kernel.bin" ] || fetch_kernel

# The only file system: the program, and the init that runs it.
mkdir root
c++ -O1 -static -o root/init "$here/init.cpp" || fail "could not build init.cpp"
cp "$program" root/program
(cd root && find . | cpio --quiet -o -H newc) >initramfs
cp "$cache/kernel.bin" memory.img
dd if=initramfs of=memory.img bs=1M seek=$(((initramfs_at - kernel_at) >> 20)) conv=notrunc status=none

# The kernel's command line. What it does not know is init's environment, and what stands behind -- init's arguments.
{
  printf 'console=ttyS0,115200 quiet loglevel=1 panic=-1 rdinit=/init'
  printf ' clearcpuid=xsavec,xsaves' # with them the kernel finds no AVX in Bochs
  printf ' tsc_early_khz=%d' $((instructions_per_second / 1000))
  # Start-up work that takes seconds here and is of no use to a program: self-tests, tracing, networks.
  printf ' cryptomgr.notests initcall_blacklist=ftrace_check_for_weak_functions,trace_eval_init,tracer_init_tracefs'
  printf ',cubictcp_register,bpf_rstat_kfunc_init,kfunc_init,bpf_prog_test_run_init,bpf_key_sig_kfuncs_init'
  printf ',bpf_tcp_ca_kfunc_init'
  for name in $(compgen -e | grep -E '^(HEED|GTEST)_' || true); do printf ' "%s=%s"' "$name" "${!name}"; done
  printf ' --'
  if [ $# -gt 0 ]; then printf ' "%s"' "$@"; fi
  printf '\0'
} >cmdline
[ "$(stat -c %s cmdline)" -le 2048 ] || fail "the arguments are too long"

c++ -c -o rom.o -Wa,-I. -DMEMORY=$memory -DKERNEL=$kernel_at -DINITRAMFS=$initramfs_at \
  -DINITRAMFS_SIZE="$(stat -c %s initramfs)" "$here/rom.S" || fail "could not build rom.S"
ld -Ttext=0xf0000 -e 0xf0000 --oformat binary -o rom.bin rom.o || fail "could not link rom.S"

cat >bochsrc <<END
display_library: term
romimage: file=$work/rom.bin, address=0xffff0000
optramimage1: file=$work/memory.img, address=$(printf '0x%x' $kernel_at)
cpu: model=corei7_skylake_x, ips=$instructions_per_second, reset_on_triple_fault=0
memory: guest=$((memory >> 20)), host=$((memory >> 20))
pci: enabled=0
ata0: enabled=0
ata1: enabled=0
clock: sync=none, time0=utc
parport1: enabled=1, file=/dev/fd/7
parport2: enabled=1, file=$work/status
com1: enabled=1, mode=file, dev=$work/console
vga: extension=none, update_freq=1
sound: driver=dummy
speaker: enabled=0
mouse: enabled=0
log: $work/log
panic: action=fatal
END
echo continue >debugger
touch status console
exec 7> >(cat) # a pipe, because Bochs opens it anew, which would empty a file
output=$!
TERM=vt100 timeout -s KILL -k 1 "$seconds" bochs -q -f bochsrc -rc debugger </dev/null >screen 2>&1 &
ended=0
{ wait $! || ended=$?; } 2>/dev/null
exec 7>&-
wait "$output"

read -r how code < <(tr -d '\0' <status) || true
case ${how:-} in
  exit) exit "$code" ;;
  signal)
    echo "avx512.sh: signal $code ended the program" >&2
    exit $((128 + code))
    ;;
esac
[ $ended != 137 ] || fail "no end after $seconds seconds"
tail -n 20 console screen log >&2
fail "the emulator ended before the program did"
