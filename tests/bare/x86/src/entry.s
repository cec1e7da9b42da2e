# The way into long mode, for both cores. AT&T syntax.
#
#   first core:   loader -> pvh_start (32 bit) -> enter_long -> long_start -> core_main(0)
#   second core:  start-up message -> trampoline (16 bit, copied below 1 MiB) -> second_start (32 bit)
#                 -> enter_long -> long_start -> core_main(1)
#
# Interrupts stay off: there is no descriptor table for them, and any exception resets the machine, which the runner sees.

.set TRAMPOLINE, 0x8000
.set STACK, 64 * 1024

.section .note.pvh, "a", @note
    .balign 4
    .long 4                     # length of the name
    .long 4                     # length of the entry's address
    .long 18                    # the kind: 32-bit entry of a PVH guest
    .asciz "Xen"
    .long pvh_start

.section .boot, "ax"
.code32
.global pvh_start
pvh_start:
    cli
    cld
    # One table of 4 GiB in pages of 2 MiB; the interrupt controller lies just below its end.
    movl $pdpt + 3, pml4
    xorl %ecx, %ecx
1:  movl %ecx, %eax
    shll $12, %eax
    addl $pages + 3, %eax
    movl %eax, pdpt(, %ecx, 8)
    incl %ecx
    cmpl $4, %ecx
    jne 1b
    xorl %ecx, %ecx
2:  movl %ecx, %eax
    shll $21, %eax
    orl $0x83, %eax             # present, writable, 2 MiB
    movl %eax, pages(, %ecx, 8)
    incl %ecx
    cmpl $2048, %ecx
    jne 2b

enter_long:
    movl %cr4, %eax
    orl $0x20, %eax             # physical address extension
    movl %eax, %cr4
    movl $pml4, %eax
    movl %eax, %cr3
    movl $0xC0000080, %ecx      # extended features: long mode
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax       # paging, protection
    movl %eax, %cr0
    lgdt gdt_pointer
    ljmp $8, $long_start

second_start:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    jmp enter_long

.code64
long_start:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    # Each core takes the next number, and the stack of that number.
    movl $1, %edi
    lock xaddl %edi, cores
    movl %edi, %eax
    incl %eax
    imull $STACK, %eax, %eax
    leaq stacks(%rax), %rsp
    xorl %ebp, %ebp
    call core_main
3:  hlt
    jmp 3b

.section .rodata.trampoline, "a"
.global trampoline
.global trampoline_end
.code16
trampoline:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl (trampoline_gdt - trampoline + TRAMPOLINE)
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $second_start
    .balign 4
trampoline_gdt:
    .word gdt_end - gdt - 1
    .long gdt
trampoline_end:
.code64

.section .rodata.gdt, "a"
    .balign 8
gdt:
    .quad 0
    .quad 0x00AF9A000000FFFF    # 0x08: code, 64 bit
    .quad 0x00CF92000000FFFF    # 0x10: data
    .quad 0x00CF9A000000FFFF    # 0x18: code, 32 bit
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .long gdt

.section .bss.boot, "aw", @nobits
    .balign 4096
pml4:   .skip 4096
pdpt:   .skip 4096
pages:  .skip 4 * 4096
stacks: .skip 2 * STACK
cores:  .skip 4
