"""Which tests try what the page on compatibility says of a feature that differs."""

_HERE = "spec/test_differences.py"

#: By the first column of the page, without marks: files below ``tests``, and functions in them.
TESTS = {
    "Context(executor, plot_class)": (
        f"{_HERE}::test_making_a_context_starts_nothing",
        "test_auto.py::test_it_is_the_default",
    ),
    "Context.make_with": (
        "test_context.py::test_contexts_by_name",
        "test_context.py::test_names_of_executors",
    ),
    "PipelinedExecutor": (
        "test_processes.py::test_names_of_the_reference",
        "test_processes.py::test_workers_are_set_up",
        "contract_failures.py::test_a_worker_that_is_killed",
        "contract_scripts.py::test_a_script_needs_no_guard",
    ),
    "DaskJobExecutor": (
        "test_dask.py::test_options",
        "test_dask.py::test_where_native_runs_go",
        "test_dask_security.py::test_it_listens_on_the_loopback_interface_alone",
        "test_dask_security.py::test_a_dashboard_is_there_on_request",
    ),
    "cluster_spec": ("test_dask.py::test_specifications",),
    "InlineJobExecutor": (
        "test_context.py::test_executors_take_what_the_reference_takes",
        "test_executor_functions.py::test_threads_inline",
    ),
    "ConcurrentJobExecutor": ("test_context.py::test_executors_take_what_the_reference_takes",),
    "functions on workers": (
        "test_executor_functions.py::test_functions_are_called_here",
        "test_executor_functions.py::test_functions_on_dask",
        "test_executor_functions.py::test_workers_are_sorted_out_by_what_they_have",
    ),
    "JobCancelledError": (
        "test_executor_functions.py::test_runs_that_are_stopped_raise_what_scripts_catch",
    ),
    "threads of libraries": ("test_executor_functions.py::test_libraries_get_the_number",),
    "ctx.load": (
        "test_old_scripts.py::test_file_types_by_keyword_in_capitals_and_as_classes",
        f"{_HERE}::test_options_that_only_the_reference_needs_are_refused",
    ),
    "data in memory": (
        "test_memory_shapes.py::test_anything_else_is_an_error",
        "test_memory_shapes.py::test_a_scan_with_missing_positions_is_asked_for",
        "test_memory_sparse.py::test_counts_that_do_not_fit_are_no_small_counts",
        "test_memory_sparse.py::test_masked_pixels_are_no_numbers",
        "test_memory_sparse.py::test_formats_are_delivered_as_in_the_reference",
        f"{_HERE}::test_options_that_only_the_reference_needs_are_refused",
    ),
    "ctx.create_com_analysis": (
        f"{_HERE}::test_fields_have_the_dtype_that_is_declared",
        f"{_HERE}::test_divergence_and_curl_stay_within_a_roi",
    ),
    "ctx.create_radial_fourier_analysis": (
        "test_analysis_masks.py::test_no_order_dominates_where_all_are_weak",
        "test_analysis_masks.py::test_scans_of_other_shapes",
    ),
    "ctx.create_point_analysis": (
        "test_analysis_masks.py::test_scans_of_other_shapes",
        "test_analysis_masks.py::test_what_cannot_be",
    ),
    "functions instead of a UDF: fn, make_buffers, merge": (
        f"{_HERE}::test_options_that_only_the_reference_needs_are_refused",
    ),
    "ctx.run_udf": ("contract_results.py::test_the_same_bits",),
    "ResultGenerator.close, throw, update_parameters_experimental": (
        "test_running.py::test_parameters_change_for_partitions_to_come",
        "test_running.py::test_misuse_of_changing_parameters",
        "test_own_object.py::test_parameters_changed_between_steps_stay",
        "test_own_object.py::test_aux_data_changed_between_steps",
    ),
    "ResultAsyncGenerator.aclose, athrow, update_parameters_experimental": (
        "test_async.py::test_aclose",
        "test_async.py::test_athrow",
        "test_async.py::test_progress_and_parameters",
    ),
    "forms of a ROI": (
        "test_context.py::test_slices_are_regions",
        "test_context.py::test_a_roi_may_be_zeros_and_ones_or_in_one_row",
        "test_old_scripts.py::test_lists_in_lists_are_regions",
        "test_misuse.py::test_unusable_roi",
        "test_empty_roi.py::test_nothing_is_read_and_nothing_is_valid",
    ),
    "live plots of a run: plots": (
        f"{_HERE}::test_plots_of_functions_that_are_not_listed_are_left_out",
        "test_results_drawn.py::test_live_plots_show_two_channels_as_two_pictures",
    ),
    "result of a run": (
        "test_remaining_differences.py::test_the_mask_shows_positions_without_data",
        "test_remaining_differences.py::test_the_mask_shows_what_is_not_merged_yet",
    ),
    "process_frame, process_tile, process_partition": (
        "test_written_data.py::test_the_flag_that_allows_writing_can_be_set",
        "test_written_data.py::test_writers_among_readers",
    ),
    "precedence, get_method, UDF_METHOD": (f"{_HERE}::test_methods_are_chosen_by_plain_strings",),
    "preprocess": (f"{_HERE}::test_aux_data_in_preprocess_are_those_of_the_selected_frames",),
    "merge(dest, src)": (
        "spec/test_rules.py::test_merge_gets_its_arguments_by_name",
        "test_silent_numbers.py::test_merge_may_take_names_alone",
        "test_exception_types.py::test_of_udfs",
    ),
    "merge_all": (
        "test_delayed_merge_all.py::test_what_it_is_given",
        "test_delayed_merge_all.py::test_what_does_not_fit_is_refused",
    ),
    "get_results": (
        "spec/test_rules.py::test_what_get_results_may_return",
        "spec/test_rules.py::test_what_get_results_may_not_return",
        "test_results_of_base_class.py::test_merged_public_buffers_by_name",
        "test_results_of_base_class.py::test_changes_do_not_reach_later_merges",
        "test_results_over_scan.py::test_what_is_outside_of_the_roi_stays",
    ),
    "get_result_buffers, buffer": (
        "spec/test_rules.py::test_buffer_wrappers_serve_as_declarations",
        "spec/test_rules.py::test_declarations_that_make_no_sense",
    ),
    "aux_data": (
        f"{_HERE}::test_aux_data_of_merges_and_results_are_those_of_the_selected_frames",
        "test_aux_data.py::test_views_are_read_only",
        "test_aux_data.py::test_wrong_shapes",
        "test_silent_numbers.py::test_auxiliary_data_have_to_fit",
    ),
    "get_preferred_input_dtype, USE_NATIVE_DTYPE": (
        f"{_HERE}::test_dtypes_that_are_not_numbers_are_refused",
        f"{_HERE}::test_native_functions_do_not_widen_what_others_get",
    ),
    "get_tiling_preferences and its constants": (
        "spec/test_rules.py::test_declarations_that_make_no_sense",
        "test_process_frames.py::test_wishes_for_the_depth",
    ),
    "get_backends": (
        "test_formats_chosen.py::test_what_is_chosen",
        "test_formats.py::test_what_a_udf_gets",
    ),
    "xp": (f"{_HERE}::test_the_main_side_has_numpy_and_the_whole_frame",),
    "params, task_data, results, meta": (
        "test_result_items.py::test_items_are_buffers",
        "test_result_items.py::test_items_of_both_sides_of_a_merge_are_buffers",
        "test_exception_types.py::test_item_access_is_discouraged_once_for_each_run",
        "spec/test_rules.py::test_buffers_may_be_named_like_methods_of_their_namespace",
    ),
    "requires_custom_merge, requires_custom_merge_all": (
        "spec/test_rules.py::test_private_buffers_need_a_merge_too",
    ),
    "copy, new_for_partition, copy_for_partition": (
        "test_own_object.py::test_what_is_set_on_the_object_counts_on_the_main_side",
        "test_own_object.py::test_a_run_within_the_steps_of_another",
        "test_own_object.py::test_one_object_twice_in_a_list",
        "test_own_object.py::test_after_a_delayed_run_the_object_has_no_results",
    ),
    "exceptions and warnings": (
        "test_exception_types.py::test_of_udfs",
        "test_exception_types.py::test_of_files_that_are_not_there",
        "test_exception_types.py::test_of_arguments_that_are_missing",
    ),
    "UDFRunner.inspect_udf, dry_run": ("spec/test_rules.py::test_looking_at_a_udf_without_a_run",),
    "sparse arrays as input": (
        "test_formats.py::test_what_a_udf_gets",
        "test_formats_chosen.py::test_half_precision_is_dense_only",
    ),
    "CUDA arrays as input": (
        "test_cuda_workers.py::test_workers_of_both_kinds_share_a_run",
        "test_cuda_workers.py::test_delayed_runs_use_the_cpu",
        "test_cuda_dask.py::test_workers_of_both_kinds_share_a_run",
        "test_cuda_sparse.py::test_dense_arrays_of_sparse_data_are_exact",
    ),
    "get_use_cuda, set_use_cuda, get_use_cpu, set_use_cpu, get_device_class": (
        "test_backend.py::test_environment",
        "test_backend.py::test_a_worker_knows_its_own_device",
    ),
    "tiling_scheme, tiling_scheme_idx": (
        "test_meta.py::test_meta_in_every_hook",
        f"{_HERE}::test_schemes_tell_what_their_tiles_are_for",
    ),
    "sig_slice": (f"{_HERE}::test_the_main_side_has_numpy_and_the_whole_frame",),
    "coordinates": (f"{_HERE}::test_the_main_side_has_numpy_and_the_whole_frame",),
    "device_class, array_backend, threads_per_worker": (
        "test_meta.py::test_meta_in_every_hook",
        "test_executor_functions.py::test_threads_inline",
        f"{_HERE}::test_the_main_side_has_numpy_and_the_whole_frame",
    ),
    "raw_data of result_only buffers": (
        f"{_HERE}::test_raw_data_that_are_computed_at_the_end_are_flat",
    ),
    "BufferWrapper": ("test_result_buffers.py::test_results_compute_as_arrays_do",),
    "set_shape_ds, allocate": ("test_result_buffers.py::test_buffers_are_made_by_hand",),
    "valid_slice_bounding, get_valid_slice_inner": ("test_meta.py::test_masks_of_results",),
    "DelayedJobExecutor": (
        "test_delayed.py::test_resources",
        "test_delayed.py::test_what_has_no_result_runs_at_once",
        "test_delayed.py::test_partial_results_and_plots",
    ),
    "make_dask_array": (
        "test_daskadapter.py::test_dtypes",
        "test_daskadapter.py::test_blocks_of_another_format",
        "test_dask_user_cluster.py::test_arrays_of_files_that_some_workers_can_read",
    ),
    "Dask arrays as data sets": (
        "test_load_dask.py::test_small_chunks_are_taken_together",
        "test_load_dask.py::test_what_is_done_is_said",
    ),
    "Shape": (
        "spec/test_shapes.py::test_shapes_compare_with_shapes_and_with_tuples",
        "test_remaining_differences.py::test_axes_in_front_of_a_shape_are_in_front",
        f"{_HERE}::test_one_frame_alone_is_a_scan_of_one",
    ),
    "SumUDF": (
        "test_native_udfs.py::test_sums_of_integers_stay_integers_if_they_are_to",
        "test_native_udfs.py::test_a_sum_that_does_not_fit_is_an_error",
    ),
    "StdDevUDF, run_stddev, consolidate_result": (
        f"{_HERE}::test_statistics_have_the_dtype_that_is_declared",
        "test_empty_roi.py::test_nothing_is_read_and_nothing_is_valid",
    ),
    "CoMUDF, guess_corrections": (
        f"{_HERE}::test_fields_have_the_dtype_that_is_declared",
        "test_udf_com.py::test_parameters_by_name_are_those_of_with_params",
        "test_builtin_hooks.py::test_centres_of_complex_frames",
    ),
    "RecordUDF": (
        "test_udf_record.py::test_an_existing_file_is_not_touched",
        "test_udf_record.py::test_with_a_roi_the_selected_frames_in_their_order",
    ),
    "ApplyMasksUDF": ("test_masks_udf.py::test_the_dtype_of_masks_of_integers_is_kept",),
    "CrystallinityUDF, run_analysis_crystall": (
        "test_udf_rings.py::test_the_ring_is_around_frequency_0",
    ),
    "analysis APPLY_FFT_MASK": (
        "test_udf_rings.py::test_the_ring_is_around_frequency_0",
        "test_analysis_frames.py::test_one_number_per_frame",
    ),
    "analysis FFTSUM_FRAMES": ("test_analysis_frames.py::test_the_spectrum_of_the_sum",),
    "analysis CLUST": (
        "test_analysis_clust.py::test_equal_to_the_libraries_by_hand",
        "test_analysis_clust.py::test_regions_that_differ_are_clusters",
    ),
    "analyses APPLY_DISK_MASK, APPLY_RING_MASK, APPLY_POINT_SELECTOR, MASKS, CENTER_OF_MASS, "
    "RADIAL_FOURIER": ("test_analysis_masks.py::test_names_of_the_package",),
    "result sets of analyses": (
        "test_old_scripts.py::test_results_of_analyses_are_used_as_arrays",
        "test_old_scripts.py::test_sets_of_results_contain_keys_and_results",
        f"{_HERE}::test_fields_have_the_dtype_that_is_declared",
    ),
    "analyses of one's own": ("test_analysis.py::test_an_analysis_of_ones_own",),
    "raw": (f"{_HERE}::test_options_that_only_the_reference_needs_are_refused",),
    "raw_csr": (
        "test_data_set_classes.py::test_constructors_take_what_the_reference_takes",
        "test_raw_csr.py::test_sync_offset_and_shapes",
        "test_ways_out.py::test_chunks_are_not_read_from_outside_of_the_folder",
    ),
    "npy": (f"{_HERE}::test_files_in_fortran_order_are_read",),
    "mib": (
        "test_write_mib.py::test_scans_of_triggers",
        "test_write_mib.py::test_a_scan_beside_another_whose_name_begins_alike",
    ),
    "hdf5": (
        "test_hdf5_chosen.py::test_what_a_link_leads_to_is_not_replaced_by_something_else",
        "test_hdf5_chosen.py::test_a_link_to_what_is_there_but_outside",
        "test_hdf5_chosen.py::test_of_several_as_large_the_first_by_name_is_taken_and_said",
        "test_hdf5_dialects.py::test_hyperspy_axes",
    ),
    "dm: one file": ("test_vendor_formats.py::test_dm_in_either_order",),
    "dm: either": ("test_vendor_formats.py::test_dm_stacks",),
    "k2is": ("test_vendor_formats.py::test_k2is",),
    "ser": ("test_vendor_formats.py::test_ser",),
    "frms6": (
        "test_detector_formats.py::test_a_gain_map_is_found_from_any_folder",
        f"{_HERE}::test_options_that_only_the_reference_needs_are_refused",
    ),
    "seq": ("test_detector_formats.py::test_frames_are_what_was_written",),
    "mrc": ("test_detector_formats.py::test_frames_are_what_was_written",),
    "auto, detect, get_extensions, load": (
        "test_data_set_classes.py::test_load_without_a_context",
        "test_data_set_classes.py::test_what_a_file_is_and_what_it_takes_to_open_it",
    ),
    "get_dataset_cls, filetypes": (
        "test_old_scripts.py::test_file_types_cannot_be_changed",
        "test_old_scripts.py::test_every_file_type_has_a_class_that_says_its_endings",
    ),
    "detect_params, get_supported_extensions, get_supported_io_backends, get_cache_key": (
        "test_data_set_classes.py::test_what_a_file_is_and_what_it_takes_to_open_it",
        "test_old_scripts.py::test_every_file_type_has_a_class_that_says_its_endings",
    ),
    "initialize, check_valid, shape, dtype, diagnostics, get_diagnostics, roi, "
    "supports_correction, get_sync_offset_info, array_backends, set_num_cores": (
        f"{_HERE}::test_the_number_of_cores_changes_nothing",
        "test_data_set_classes.py::test_errors_come_when_a_data_set_is_made",
    ),
    "meta": ("test_picking.py::test_meta_data_have_shapes_beside_texts",),
    "ds.dtype": (f"{_HERE}::test_info_has_the_byte_order_of_a_file",),
    "get_partitions, get_num_partitions, Partition.get_tiles, get_macrotile": (
        "test_picking.py::test_tiles_of_all_partitions_are_all_of_the_data",
        "test_picking.py::test_as_many_partitions_as_it_says",
    ),
    "MMapBackend, BufferedBackend, DirectBackend": (
        "test_data_set_classes.py::test_backends_as_objects",
    ),
    "CorrectionSet": ("test_corrections.py::test_forms_of_excluded_pixels",),
    "adjust_tileshape": (
        "test_corrections.py::test_frames_larger_than_a_tile",
        "test_corrections.py::test_a_set_applied_to_tiles_that_it_adjusted",
    ),
    "Live2DPlot": (
        "test_viz_mpl.py::test_nan_outliers_and_other_positions_do_not_set_limits",
        "test_viz_mpl.py::test_line_scans_are_curves",
        "test_viz.py::test_another_channel_can_be_chosen",
    ),
    "GMSLive2DPlot": ("test_old_scripts.py::test_plots_in_digital_micrograph",),
    "visualize_simple, rgb_from_2dvector, libertem_cyclic": (
        "test_viz.py::test_zero_is_grey_and_saturation_grows_with_length",
        "test_viz.py::test_limits_and_nan",
    ),
    "ProgressReporter, TQDMProgressReporter, ProgressState": (
        "test_progress.py::test_a_reporter_hears_of_each_merge",
    ),
    "radial_bins": (f"{_HERE}::test_normalized_bins_add_up_to_one",),
    "sparse_circular_multi_stack": ("test_masks.py::test_stacks_of_disks",),
}
