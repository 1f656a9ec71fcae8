use spindle_sim::Experiment;
fn main() {
    let id = std::env::args().nth(1).unwrap();
    let o = Experiment::find(&id)
        .unwrap()
        .run(std::path::Path::new("/tmp/cw-out"), &mut |_| ())
        .unwrap();
    for c in &o.checks {
        println!(
            "{:<75} {:>10.3} {:?} {} {:?} {}",
            c.name,
            c.ours,
            c.paper,
            c.relation,
            c.bound,
            match (c.holds, c.reason.is_some()) {
                (Some(true), _) => "holds",
                (Some(false), true) => "explained",
                (Some(false), _) => "MISSED",
                _ => "told",
            }
        );
    }
    for s in &o.series {
        println!("{}: {:?}", s.name, s.columns);
        for r in &s.rows {
            println!("{}", r.iter().map(|v| format!("{v:.2}")).collect::<Vec<_>>().join("\t"));
        }
    }
}
