//! `framefold run`: runs a reduction over files, writes its result and sums it up.

use super::{for_each_file, tuple};
use crate::args::{RunArgs, RunCommand};
use crate::field::Field;
use crate::interrupt::cancel_on_interrupt;
use crate::output::{Extra, Target};
use crate::progress::Progress;
use crate::roi::parse_roi;
use crate::summary::{self, Stats, probe};
use crate::terminal;
use framefold::core::{Bool8, NativeArray, Udf};
use framefold::exec::Explanation;
use framefold::kernels::{Look, Reduction};
use framefold::{
    Cancel, Dataset, Error, Executor, Plan, PlanOptions, Result, RunOptions, RunResults,
};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Runs the reduction over each file.
pub(crate) fn run(command: &RunCommand) -> Result<u8> {
    let all_files = &command.reduction.files[..];
    let files = command.data.inputs(all_files);
    let args = &command.run;
    let mut targets = match &args.output {
        Some(template) if !args.explain => {
            Target::for_files(template, files, args.force)?.into_iter()
        }
        _ => Vec::new().into_iter(),
    };
    for_each_file(files, |file| {
        let target = targets.next();
        let dataset = command.data.open(&command.data.format, file, all_files)?;
        let (udf, doubts) = command.reduction.udf(&dataset)?;
        let plan = Arc::new(plan(args, &dataset, udf)?);
        let warnings = oddities(&dataset, &plan, doubts);
        if !args.quiet {
            warnings.iter().for_each(|warning| terminal::warn_of(file, warning));
        }
        if args.explain {
            let explanation = plan.explain();
            return terminal::print(&if args.json {
                explanation_json(file, &explanation).to_string()
            } else {
                explanation.to_string().trim_end().to_owned()
            });
        }
        if let Some(target) = &target {
            if target.is_standard_output() && (args.json || !args.probe.is_empty()) {
                return Err(Error::invalid(
                    "the result and what --json or --probe print would mix",
                )
                .with_hint("write the result to a file, or leave these options out"));
            }
            target.check_not_input(&dataset.source().info().paths)?;
        }
        let job =
            Job { command, file, reduction: command.reduction.reduction, plan, target, warnings };
        let running = cancel_on_interrupt();
        running.run(|| job.run(&running.cancel))
    })
}

fn plan(args: &RunArgs, dataset: &Dataset, udf: Arc<dyn Udf>) -> Result<Plan> {
    let roi = args.roi.as_deref().map(|text| parse_roi(text, dataset.shape().nav()));
    let roi = roi.transpose()?.map(Arc::new);
    Plan::try_new(dataset, vec![udf], roi, &PlanOptions::default())
}

/// What is odd about the data and the reduction, known before time is spent on them.
fn oddities(dataset: &Dataset, plan: &Plan, doubts: Vec<String>) -> Vec<String> {
    let mut all = dataset.warnings();
    all.extend(doubts);
    let n_empty = plan.n_selected().saturating_sub(plan.n_frames());
    if n_empty > 0 {
        all.push(format!(
            "{n_empty} of {} selected scan positions have no data; they do not count",
            plan.n_selected()
        ));
    }
    all
}

/// One file with all that was decided about it.
struct Job<'a> {
    command: &'a RunCommand,
    file: &'a Path,
    reduction: &'static Reduction,
    plan: Arc<Plan>,
    target: Option<Target>,
    warnings: Vec<String>,
}

impl Job<'_> {
    fn run(&self, cancel: &Cancel) -> Result<()> {
        let args = &self.command.run;
        let start = Instant::now();
        let results = self.results(cancel)?;
        let seconds = start.elapsed().as_secs_f64();
        let extras = extras(&results, self.reduction.look)?;
        let (fields, main) = self.fields(results)?;
        let main_field = fields.get(main).ok_or_else(|| Error::bug("the main buffer is gone"))?;
        let mut probed = Vec::with_capacity(args.probe.len());
        for index in &args.probe {
            probed.push(probe(&main_field.array, index)?);
        }
        let mut caption = None;
        if let Some(target) = &self.target {
            let style = self.command.picture.style(self.reduction.name);
            caption = target.write(&fields, main_field, &extras, &style, cancel)?;
        }
        if args.json {
            let json = self.to_json(&fields, main, caption, seconds)?;
            return terminal::print(&json.to_string());
        }
        for (index, value) in args.probe.iter().zip(probed) {
            terminal::print(&format!("{}{index:?} = {value}", main_field.name))?;
        }
        if args.quiet {
            return Ok(());
        }
        match &self.target {
            // What is on standard output is the result, and nothing else.
            Some(target) if target.is_standard_output() => Ok(()),
            Some(target) => {
                let caption = caption.unwrap_or_else(|| match target.takes_all() {
                    true => fields.iter().map(in_words).collect::<Vec<_>>().join("; "),
                    false => in_words(main_field),
                });
                terminal::print(&format!("{}: {caption}", target.path().display()))
            }
            None => fields.iter().try_for_each(|field| {
                terminal::print(&format!("{}: {}", self.file.display(), in_words(field)))
            }),
        }
    }

    fn results(&self, cancel: &Cancel) -> Result<RunResults> {
        let args = &self.command.run;
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let executor = match args.threads {
            Some(count) if count.get() == 1 => Executor::Inline,
            count => Executor::Threads(count),
        };
        let mut progress = Progress::new(name, args.quiet);
        let options = RunOptions { executor, cancel: cancel.clone(), observer: &mut progress };
        framefold::run(&self.plan, options)?.snapshot()
    }

    /// The result buffers, and which of them is the main one.
    fn fields(&self, mut results: RunResults) -> Result<(Vec<Field>, usize)> {
        let udf = results.udfs.pop().ok_or_else(|| Error::bug("there are no results"))?;
        let wanted = self.command.run.buffer.as_deref().unwrap_or(self.reduction.main_buffer);
        let names: Vec<String> = udf.buffers.iter().map(|b| b.decl.name.clone()).collect();
        let main = names.iter().position(|name| name == wanted).ok_or_else(|| {
            Error::invalid(format!("'{}' has no result buffer '{wanted}'", udf.name))
                .with_hint(format!("choose one of {}", names.join(", ")))
        })?;
        let axes = self.plan.dataset().axes();
        let fields = udf
            .buffers
            .into_iter()
            .map(|buffer| Field::try_new(buffer, &results, self.reduction.look, &axes))
            .collect::<Result<Vec<Field>>>()?;
        Ok((fields, main))
    }

    fn to_json(
        &self,
        fields: &[Field],
        main: usize,
        caption: Option<String>,
        seconds: f64,
    ) -> Result<Value> {
        let dataset = self.plan.dataset();
        let info = dataset.source().info();
        let probes = &self.command.run.probe;
        let buffers = fields
            .iter()
            .enumerate()
            .map(|(i, field)| summary::to_json(field, if i == main { probes } else { &[] }))
            .collect::<Result<Vec<Value>>>()?;
        Ok(json!({
            "file": self.file.display().to_string(),
            "format": info.format,
            "reduction": self.reduction.name,
            "nav_shape": dataset.shape().nav(),
            "sig_shape": dataset.shape().sig(),
            "dtype": info.dtype.dtype.name(),
            "n_selected": self.plan.n_selected(),
            "n_frames": self.plan.n_frames(),
            "warnings": self.warnings,
            "seconds": seconds,
            "main_buffer": fields.get(main).map(|field| field.name.as_str()),
            "buffers": buffers,
            "output": self.target.as_ref().map(|target| target.path().display().to_string()),
            "caption": caption,
        }))
    }
}

/// Which entries of `nav` buffers have data; for picked frames, also where they are from.
fn extras(results: &RunResults, look: Look) -> Result<Vec<Extra>> {
    let nav = results.shape.nav();
    let valid = |shape: &[usize], valid: Vec<bool>| {
        let cells: Vec<Bool8> = valid.into_iter().map(Bool8::from).collect();
        NativeArray::try_new(shape, cells).map(|array| Extra { name: "valid", array })
    };
    let Some(roi) = results.roi.as_ref().filter(|_| look == Look::Frames) else {
        return Ok(vec![valid(nav, results.valid_nav()?)?]);
    };
    let coordinates: Vec<i64> = roi
        .positions()
        .iter()
        .flat_map(|&position| results.shape.nav_coordinates(position))
        .map(|coordinate| i64::try_from(coordinate).unwrap_or(i64::MAX))
        .collect();
    let array = NativeArray::try_new(&[roi.n_selected(), nav.len()], coordinates)?;
    Ok(vec![valid(&[roi.n_selected()], results.valid.clone())?, Extra { name: "positions", array }])
}

/// A buffer in one line.
fn in_words(field: &Field) -> String {
    let stats = Stats::of(field);
    let extremes = match (stats.min, stats.max) {
        (Some(min), Some(max)) => format!(", from {min} to {max}"),
        _ => String::new(),
    };
    let nan =
        if stats.n_nan > 0 { format!(", {} not a number", stats.n_nan) } else { String::new() };
    let (shape, dtype) = (tuple(field.array.shape()), field.array.dtype());
    format!("{} {shape} {dtype}{extremes}, sum {}{nan}", field.name, stats.sum)
}

fn explanation_json(file: &Path, explanation: &Explanation) -> Value {
    let udfs: Vec<Value> = explanation
        .udfs
        .iter()
        .map(|udf| {
            json!({
                "name": udf.name,
                "method": udf.method,
                "format": udf.format,
                "dtype": udf.dtype,
                "buffers": udf.buffers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "file": file.display().to_string(),
        "dataset": explanation.dataset,
        "n_selected": explanation.n_selected,
        "n_frames": explanation.n_frames,
        "bytes_to_read": explanation.bytes_to_read,
        "n_partitions": explanation.n_partitions,
        "frames_per_partition": explanation.frames_per_partition,
        "why_partitions": explanation.why_partitions,
        "tile_depth": explanation.tile_depth,
        "tile_shape": explanation.tile_shape,
        "n_slices": explanation.n_slices,
        "why_tiling": explanation.why_tiling,
        "zero_copy": explanation.zero_copy,
        "udfs": udfs,
    })
}
