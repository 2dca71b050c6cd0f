//! What is there at once, and work that is not wanted any more.

use crate::cases::{answers, assert_close, case_with, impatient, slow};
use framefold::core::DType;
use framefold::{Cancel, ErrorKind};
use framefold_view::{
    PatternChannel, PatternQuery, Query, ScanChannel, ScanQuery, Shape, Sign, Signed, State,
    ViewerOptions, Wish,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn previews_are_every_few_positions() {
    for (nav, sig) in
        [(vec![40, 50], vec![8, 8]), (vec![500], vec![8, 8]), (vec![2, 30, 30], vec![64])]
    {
        for channel in [ScanChannel::Sum, ScanChannel::Std, ScanChannel::Max] {
            // A hundredth of the time that reading all of it is taken to need.
            let bytes: usize = nav.iter().chain(&sig).product::<usize>() * 2;
            let patience = Some(Duration::from_secs_f64(bytes as f64 / 0.4e9 / 100.0));
            let options = ViewerOptions { patience, ..Default::default() };
            let viewer = case_with(3, DType::U16, &nav, &sig, options).viewer;
            let query = Query::Scan(ScanQuery { channel, ..Default::default() });
            let fast = answers(&viewer, &query, Wish::Fast).unwrap();
            let [preview] = &fast[..] else { panic!("{} pictures", fast.len()) };
            assert_eq!(preview.state, State::Preview);
            let [down, across] = preview.stride;
            assert!(down * across >= 64, "{:?}", preview.stride);
            assert_eq!(preview.label, format!("preview 1/{}", down * across));
            let exact = answers(&viewer, &query, Wish::Exact).unwrap();
            assert_eq!(exact[0].state, State::Preview);
            let exact = exact.last().unwrap();
            assert_eq!(exact.state, State::Exact);
            let columns = *exact.shape.last().unwrap();
            let rows = exact.values.len() / columns;
            let expected: Vec<f64> = (0..rows)
                .step_by(down)
                .flat_map(|y| (0..columns).step_by(across).map(move |x| (y, x)))
                .map(|(y, x)| exact.values[y * columns + x])
                .collect();
            assert_close(&preview.values, &expected, 0.0, "a preview");
        }
    }
}

#[test]
fn previews_of_patterns_are_of_some_frames() {
    let case = impatient(3, DType::U16, &[20, 20], &[8, 8]);
    let region = vec![Signed {
        shape: Shape::Rectangle { y0: 3.0, x0: 5.0, y1: 18.0, x1: 9.0 },
        sign: Sign::Plus,
    }];
    for channel in [PatternChannel::Sum, PatternChannel::Mean, PatternChannel::Max] {
        let query = Query::Pattern(PatternQuery {
            channel: channel.clone(),
            region: region.clone(),
            ..Default::default()
        });
        let pictures = answers(&case.viewer, &query, Wish::Fast).unwrap();
        let [preview] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
        assert_eq!((preview.state, preview.label.as_str()), (State::Preview, "preview 1/80"));
        // The first of the region alone, as bright as all of it.
        let times = if channel == PatternChannel::Sum { 80.0 } else { 1.0 };
        let frame = case.data.frames[3 * 20 + 5].as_ref().unwrap();
        let expected: Vec<f64> = frame.iter().map(|pixel| pixel * times).collect();
        assert_close(&preview.values, &expected, 0.0, "a preview");
    }
}

#[test]
fn a_single_position_is_its_frame() {
    let case = impatient(4, DType::U16, &[5, 5], &[8, 8]);
    for (position, frame) in case.data.frames.iter().enumerate() {
        let point = Shape::Point { y: (position / 5) as f64 + 0.4, x: (position % 5) as f64 - 0.4 };
        let region = vec![Signed { shape: point, sign: Sign::Plus }];
        let query = Query::Pattern(PatternQuery { region, ..Default::default() });
        let pictures = answers(&case.viewer, &query, Wish::Fast).unwrap();
        let [picture] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
        assert_eq!(picture.state, State::Exact);
        match frame {
            Some(frame) => assert_eq!(&picture.values, frame),
            None => assert!(picture.values.iter().all(|value| value.is_nan())),
        }
    }
}

#[test]
fn cancelled_answers_end() {
    let case = impatient(3, DType::U16, &[8, 8], &[8, 8]);
    let query = Query::Scan(ScanQuery::default());
    let cancel = Cancel::new();
    cancel.cancel();
    let mut n = 0;
    let error = case.viewer.answer(&query, Wish::Exact, &cancel, &mut |_| {
        n += 1;
        Ok(())
    });
    assert_eq!((error.unwrap_err().kind(), n), (ErrorKind::Cancelled, 0));
    // In the middle: nothing comes after.
    let cancel = Cancel::new();
    let error = case.viewer.answer(&query, Wish::Exact, &cancel, &mut |_| {
        n += 1;
        cancel.cancel();
        Ok(())
    });
    assert_eq!((error.unwrap_err().kind(), n), (ErrorKind::Cancelled, 1));
    // The receiver of pictures may refuse more of them.
    let error = case.viewer.answer(&query, Wish::Exact, &Cancel::new(), &mut |_| {
        Err(framefold::Error::unsupported("no more"))
    });
    assert!(error.unwrap_err().to_string().contains("no more"));
    assert!(answers(&case.viewer, &query, Wish::Exact).is_ok());
}

#[test]
fn exact_passes_show_what_they_have() {
    let (case, n_read) = slow(Duration::from_millis(3), &[12, 15]);
    let query = Query::Scan(ScanQuery::default());
    let pictures = answers(&case.viewer, &query, Wish::Exact).unwrap();
    let exact = pictures.last().unwrap();
    let partial: Vec<_> = pictures.iter().filter(|p| p.state == State::Partial).collect();
    assert!(!partial.is_empty());
    let mut before = 0.0;
    for picture in partial {
        assert!(picture.progress > before && picture.progress < 1.0);
        assert!(picture.label.ends_with("% so far"), "{}", picture.label);
        before = picture.progress;
        let known = picture.values.iter().filter(|value| !value.is_nan()).count();
        assert!(known > 0 && known < 180);
        for (found, exact) in picture.values.iter().zip(&exact.values) {
            assert!(found.is_nan() || found == exact);
        }
    }
    // What was computed is kept: also for another channel of the same sums.
    let n = n_read.load(Ordering::SeqCst);
    let query = Query::Scan(ScanQuery { channel: ScanChannel::Mean, ..Default::default() });
    let mean = answers(&case.viewer, &query, Wish::Fast).unwrap().pop().unwrap();
    assert_eq!(mean.state, State::Exact);
    assert_eq!(n_read.load(Ordering::SeqCst), n);
}

#[test]
fn work_that_is_not_wanted_ends_soon() {
    let (case, n_read) = slow(Duration::from_millis(5), &[30, 30]);
    let n_read = || n_read.load(Ordering::SeqCst);
    for query in [Query::Scan(ScanQuery::default()), Query::Pattern(PatternQuery::default())] {
        let cancel = Cancel::new();
        let before = n_read();
        let (stopped, n) = std::thread::scope(|scope| {
            let answer =
                scope.spawn(|| case.viewer.answer(&query, Wish::Exact, &cancel, &mut |_| Ok(())));
            // In the middle of the pass that follows a preview.
            while n_read() < before + 60 && !answer.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            cancel.cancel();
            let n = n_read();
            (answer.join().unwrap(), n)
        });
        // No more than what was under way.
        assert!(n_read() - n < 100, "{} of 900 frames", n_read() - n);
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
