"""loopy's public names, by what the face does with them.

A name that is in no set here is loopy's own object.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions that make a unit from texts, arguments and other units.
MAKERS = frozenset(
    {"fuse_kernels", "make_copy_kernel", "make_einsum", "make_function", "make_kernel", "merge"}
)
# Functions that take a unit as first argument and return a new one.
TRANSFORMATIONS = _names("""
    add_and_infer_dtypes add_barrier add_dependency add_dtypes add_inames_for_unused_hw_axes add_inames_to_insn
    add_nosync add_padding add_prefetch affine_map_inames alias_temporaries allocate_temporaries_for_base_storage
    assignment_to_subst assume buffer_array change_arg_to_image chunk_iname collect_common_factors_on_increment
    concatenate_arrays duplicate_inames expand_subst extract_subst fix_parameters fold_constants infer_arg_descr
    infer_unknown_types inline_callable_kernel join_inames linearize make_reduction_inames_unique map_domain
    pack_and_unpack_args_for_call precompute preprocess_kernel preprocess_program prioritize_loops
    privatize_temporaries_with_inames realize_reduction register_callable register_preamble_generators
    register_symbol_manglers remove_inames_from_insn remove_instructions remove_predicates_from_insn
    remove_unused_arguments remove_unused_inames rename_argument rename_callable rename_iname rename_inames
    save_and_reload_temporaries set_argument_order set_array_axis_names set_array_dim_names set_instruction_priority
    set_options set_temporary_address_space set_temporary_scope simplify_indices split_arg_axis split_array_axis
    split_array_dim split_iname split_reduction_inward split_reduction_outward tag_array_axes tag_data_axes
    tag_inames tag_instructions to_batched unprivatize_temporaries_with_inames
""")
# Constructors of arguments, instructions and their parts -> the class that they make.
CONSTRUCTORS = {
    name: name
    for name in _names("""
        ArrayArg Assignment AtomicInit AtomicUpdate BarrierInstruction CInstruction CTarget CallInstruction
        ConstantArg CudaTarget ExecutableCTarget ISPCTarget ImageArg NoOpInstruction OpenCLTarget OrderedAtomic
        PyOpenCLTarget SubstitutionRule TemporaryVariable UniqueName ValueArg
    """)
} | {"GlobalArg": "ArrayArg"}
DEFERRED = MAKERS | TRANSFORMATIONS | CONSTRUCTORS.keys()
# Parameters that take callables which loopy calls only while it generates code.
FOR_GENERATING = {
    "make_function": frozenset({"preamble_generators"}),
    "make_kernel": frozenset({"preamble_generators"}),
    "register_preamble_generators": frozenset({1, "preamble_generators"}),
}
# Functions that read loopy's language version from the globals of their caller.
VERSIONED = frozenset({"make_function", "make_kernel"})
VERSION_SYMBOL = "LOOPY_USE_LANGUAGE_VERSION_2018_2"
VERSION = (2018, 2)
# Classes that programs use in `isinstance`, call or derive from. Referring to one does not import loopy.
TYPES = _names("""
    ASTBuilderBase AddressSpace CFamilyTarget CWithGNULibcTarget CacheMode CallMangleInfo CallableKernel
    CodeGenerationResult CountGranularity ExecutableCWithGNULibcTarget ExecutorBase GeneratedProgram HappensAfter
    InKernelCallable InstructionBase KernelArgument KernelState LegacyStringInstructionTag LinearSubscript
    LoopKernel LoopyType MemAccess MemoryOrdering MemoryScope MultiAssignmentBase NumpyType Op Optional Options
    PreambleInfo Reduction ScalarCallable Sync TaggedVariable TargetBase ToCountMap ToCountPolynomialMap
    TranslationUnit TypeCast UseStreamingStoreTag VarAtomicity auto
""")
# Members of enumerations to which a program can refer without importing loopy.
MEMBERS = {"AddressSpace": frozenset({"GLOBAL", "LOCAL", "PRIVATE"})}
# Categories that a warning filter can use without importing loopy.
WARNINGS = frozenset(
    {"DirectCallUncachedWarning", "LoopyAdvisory", "LoopyWarning", "LoopyWarningBase"}
)
# Functions that are carried out at once, since they return an answer, print, change the process, take kernels, or run
# code of the user.
AT_ONCE = _names("""
    auto_test_vs_ref c_preprocess clear_in_mem_caches find_instructions find_most_recent_global_barrier
    find_one_rule_matching find_padding_multiple find_rules_matching find_unused_axis_tag for_each_kernel
    gather_access_footprint_bytes gather_access_footprints generate_body generate_code generate_code_v2
    generate_header generate_loop_schedules get_dot_dependency_graph get_global_barrier_order
    get_iname_duplication_options get_kennedy_unweighted_fusion_candidates get_mem_access_map
    get_one_linearized_kernel get_one_scheduled_kernel get_op_map get_subkernel_to_insn_id_map get_subkernels
    get_synchronization_map has_schedulable_iname_nesting make_program map_instructions memoize_on_disk
    parse_fortran parse_transformed_fortran register_reduction_parser rename_inames_in_batch replace_instruction_ids
    set_caching_enabled set_default_target show_dependency_graph t_unit_to_python to_loopy_type untag_inames
""")
# The modules of loopy with a face of their own.
MODULES = _names("""
    loopy.diagnostic loopy.kernel.creation loopy.kernel.data loopy.kernel.instruction loopy.options loopy.target.c
    loopy.target.cuda loopy.target.opencl loopy.target.pyopencl loopy.transform.add_barrier
    loopy.transform.array_buffer_map loopy.transform.batch loopy.transform.buffer loopy.transform.callable
    loopy.transform.data loopy.transform.fusion loopy.transform.iname loopy.transform.instruction
    loopy.transform.padding loopy.transform.parameter loopy.transform.precompute loopy.transform.privatize
    loopy.transform.realize_reduction loopy.transform.subst loopy.translation_unit loopy.type_inference loopy.typing
    loopy.version
""")
# (module, name) with another meaning than the same name in the package.
NAMESAKES = frozenset({("loopy.transform.callable", "rename_iname")})
# The packages of the modules in `MODULES`.
PACKAGES = frozenset({"loopy.kernel", "loopy.target", "loopy.transform"})
