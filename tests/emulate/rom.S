# The ROM of the emulated machine, 64 KiB below 1 MiB: in place of a BIOS and a boot loader it enters the kernel, which
# lies in memory already, the way a 64-bit boot loader would (Documentation/x86/boot.rst in the sources of Linux).
# MEMORY, KERNEL, INITRAMFS and INITRAMFS_SIZE are numbers given by avx512.sh; the file `cmdline` is the kernel's
# command line.

        .text
        .code16
start_16:
        cli
        lgdtl   %cs:(gdt_pointer - start_16)
        movl    $0x11, %eax             # protection, floating point
        movl    %eax, %cr0
        ljmpl   $0x08, $start_32

        .code32
start_32:
        movl    $0x18, %eax
        movl    %eax, %ds
        movl    %eax, %es
        movl    %eax, %ss
        movb    $2, %al                 # address line 20 on
        outb    %al, $0x92

        # Bochs reads the memory image into its own memory in one go, but hands its memory out in blocks of 128 KiB as
        # they are first touched. Touched in order, they hold the image.
        movl    $KERNEL, %ebx
1:      movl    (%ebx), %eax
        addl    $0x20000, %ebx
        cmpl    $INITRAMFS + INITRAMFS_SIZE, %ebx
        jb      1b

        movl    $0x20, %eax             # PAE
        movl    %eax, %cr4
        movl    $page_map, %eax
        movl    %eax, %cr3
        movl    $0xc0000080, %ecx       # EFER: long mode
        rdmsr
        orl     $0x100, %eax
        wrmsr
        movl    $0x80000011, %eax       # paging
        movl    %eax, %cr0
        ljmp    $0x10, $start_64

        .code64
start_64:
        movl    $boot_params, %esi
        movl    $KERNEL, %eax
        jmp     *%rax

        .balign 8
gdt:    .quad   0
        .quad   0x00cf9b000000ffff      # 0x08: 32-bit code
        .quad   0x00af9b000000ffff      # 0x10: 64-bit code
        .quad   0x00cf93000000ffff      # 0x18: data
gdt_pointer:
        .word   gdt_pointer - gdt - 1
        .long   gdt

        .balign 4096
page_map:                               # the first GiB stands where it lies
        .quad   page_directory + 0x23   # present, writable, accessed
        .balign 4096
page_directory:
        .quad   0xe3                    # besides: dirty, one page of 1 GiB

        .balign 4096
boot_params:                            # struct boot_params of <asm/bootparam.h>
        .org    boot_params + 0x1e8
        .byte   2                       # e820_entries
        .org    boot_params + 0x202
        .ascii  "HdrS"
        .word   0x20c                   # version of the protocol
        .org    boot_params + 0x210
        .byte   0xff                    # type_of_loader: none of the known ones
        .byte   1                       # loadflags: the kernel lies above 1 MiB
        .org    boot_params + 0x218
        .long   INITRAMFS, INITRAMFS_SIZE
        .org    boot_params + 0x228
        .long   command_line
        .org    boot_params + 0x2d0     # e820_table: address, size, 1 for usable memory
        .quad   0, 0x9f000
        .long   1
        .quad   0x100000, MEMORY - 0x100000
        .long   1
        .org    boot_params + 0x1000
command_line:
        .incbin "cmdline"

        .org    0xfff0                  # where the processor begins
        .code16
        jmp     start_16
        .org    0x10000
