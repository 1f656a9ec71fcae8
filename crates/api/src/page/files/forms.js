// Would it fit, and changes: each is checked by the daemon first, and made after a confirmation
// that shows the verdict.

import { byId, choice, el, field } from "./dom.js";
import { bytes, percent, time } from "./format.js";
import { named, request } from "./live.js";
import { Placement } from "./placement.js";

const POOL = "";

/** Where a volume of the pool lies. */
const placement = new Placement();

const CONTRACTS = {
  "best effort": [],
  reserve: [["reserve", "Reserve", "30%"], ["limit", "Limit (optional)", ""]],
  stream: [["bandwidth", "Bandwidth", "1MB/s"], ["block", "Block", "256KiB"]],
  latency: [["within", "Within", "80ms"], ["requests", "Requests", "20/s"],
    ["size", "Largest request", "64KiB"]],
};

/** The fields of a form that are not empty. */
function filled(form) {
  const entries = [...new FormData(form)].map(([key, value]) => [key, value.trim()]);
  return Object.fromEntries(entries.filter(([, value]) => value !== ""));
}

/** The body of a request for a volume with the fields of the form. */
function specOf(form) {
  const { name, size, disk, contract, ...rest } = filled(form);
  const { placed, survival, values } = placement.take(rest);
  const spec = { name, size, ...placed };
  if (disk) spec.disk = disk;
  if (contract === "reserve") Object.assign(spec, values);
  if (contract === "stream") spec.stream = { ...values, ...survival };
  if (contract === "latency") {
    const { largest, ...others } = values;
    spec.latency = { ...others, size: largest };
  }
  return spec;
}

/** What would fit in place of a contract whose deadlines would be missed. */
function offers(deadlines) {
  const { block_bytes: block, bandwidth_bytes_per_s: bandwidth, latency } = deadlines ?? {};
  const found = [];
  if (block) found.push(`a block of ${bytes(block)} at the same bandwidth`);
  if (bandwidth) found.push(`${(bandwidth / 1e6).toFixed(2)} MB/s with the same block`);
  if (latency?.within) found.push(`within ${latency.within}`);
  if (latency?.requests) found.push(`${latency.requests} requests`);
  if (latency?.size) found.push(`requests of at most ${latency.size}`);
  if (latency?.burst) found.push(`a burst of ${latency.burst}`);
  return found.length ? [`What would fit: ${found.join("; or ")}.`] : [];
}

function verdict(fits, head, sentences) {
  return el("div", { class: `verdict ${fits ? "fits" : "refused"}` },
    el("p", { class: fits ? "good" : "bad" }, head), ...sentences.map((text) => el("p", {}, text)));
}

function verdictOf({ fits, reason, reserve_max: reserve, size_max_bytes: size, headroom }) {
  const sentences = reason ? [reason.message, ...offers(reason.deadlines)] : [];
  if (reserve) {
    sentences.push(`Available now: a reserve of at most ${reserve}, a size of at most ` +
      `${bytes(size)}.`);
  }
  if (headroom) {
    sentences.push(`Deadlines: ${headroom.tasks} tasks require ${percent(headroom.utilization)} ` +
      `of the disk's time; ${time(headroom.slack_ms)} of slack at any instant.`);
  }
  return verdict(fits, fits ? "It fits." : "It does not fit.", sentences);
}

const refusal = (error) => verdict(false, "It is refused.",
  [error.message, ...offers(error.error?.deadlines)]);

/** Marks the input that a refusal is about with what is accepted; without one, none. */
function mark(form, fault) {
  for (const old of form.querySelectorAll(".accepted")) old.remove();
  for (const input of form.elements) input.removeAttribute("aria-invalid");
  // A field within another one is written with both names, as in `stream.block`.
  const name = fault?.field?.split(".").pop();
  const isNamed = (one) => (one.dataset.field ?? one.name) === name;
  const inputs = name ? [...form.elements].filter(isNamed) : [];
  const input = inputs.find((one) => fault.given?.includes(one.value)) ?? inputs[0];
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  if (fault.accepted) input.before(el("span", { class: "accepted" }, `expected ${fault.accepted}`));
}

/** Asks for a confirmation, and makes the change. The dialog stays with the error if it fails. */
function confirm(head, verb, body, change) {
  const dialog = byId("confirm");
  const [yes, no] = [byId("confirm-yes"), byId("confirm-no")];
  byId("confirm-head").textContent = head;
  byId("confirm-body").replaceChildren(...body);
  byId("confirm-error").textContent = "";
  yes.textContent = verb;
  yes.disabled = false;
  yes.onclick = async () => {
    yes.disabled = true;
    try {
      await change();
      dialog.close();
    } catch (error) {
      byId("confirm-error").textContent = error.message;
      yes.disabled = false;
    }
  };
  no.onclick = () => dialog.close();
  dialog.showModal();
}

/** The form in which a volume is described. `changed` is called after a change. */
export function setUp(changed) {
  const form = byId("fit");
  const values = el("div", { class: "contract", role: "group", "aria-label": "Contract" });
  const contract = choice("contract", "Contract", Object.keys(CONTRACTS).map((one) => [one, one]));
  const select = contract.querySelector("select");
  const disk = choice("disk", "On", []);
  const place = () => {
    placement.show(disk.querySelector("select").value === POOL, select.value === "stream");
  };
  const fill = () => {
    values.replaceChildren(...CONTRACTS[select.value].map(([name, label, value]) => {
      const isOfRequests = select.value === "latency" && name === "size";
      const one = field(isOfRequests ? "largest" : name, label, value, name !== "limit");
      one.querySelector("input").dataset.field = name;
      return one;
    }));
    place();
  };
  select.addEventListener("change", fill);
  form.addEventListener("change", place);
  select.value = "reserve";
  fill();
  form.append(field("name", "Name", ""), disk, field("size", "Size", "1GiB"), placement.group,
    contract, values, placement.survival, el("button", { type: "submit" }, "Check"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const spec = specOf(form);
    const path = spec.disk ? "" : "pool/";
    mark(form, null);
    try {
      const { admission } = await request("POST", `/v1/${path}admission`, spec);
      mark(form, admission.reason);
      const box = verdictOf(admission);
      if (admission.fits) {
        const create = el("button", { type: "button" }, "Create this volume…");
        create.addEventListener("click", () => {
          const body = [verdictOf(admission), el("p", {}, describe(spec))];
          confirm(`Create ${spec.name}?`, "Create", body, async () => {
            await request("POST", spec.disk ? "/v1/volumes" : "/v1/pool/volumes", spec);
            byId("verdict").replaceChildren(verdict(true, `${spec.name} was created.`, []));
            changed();
          });
        });
        box.append(create);
      }
      byId("verdict").replaceChildren(box);
    } catch (error) {
      mark(form, error.error);
      byId("verdict").replaceChildren(refusal(error));
    }
  });
}

/** A body of a request in words. */
function describe(spec) {
  const words = Object.entries(spec).map(([key, value]) => {
    return `${key}: ${typeof value === "object" ? `(${describe(value)})` : value}`;
  });
  return words.join(", ");
}

/** The disks that a volume can be created on. */
export function setDisks(disks, pool) {
  const select = byId("fit").querySelector("select[name=disk]");
  const pooled = new Set((pool?.disks ?? []).map((disk) => disk.name));
  const names = disks.map((disk) => disk.name).filter((name) => !pooled.has(name));
  const options = names.map((name) => [name, name]);
  if (pool) options.push([POOL, "the pool"]);
  placement.setDisks(pool?.disks ?? []);
  const key = JSON.stringify(options);
  if (select.shown === key) return;
  select.shown = key;
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
  if (options.some(([value]) => value === before)) select.value = before;
  // What the form shows depends on it.
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

function changeForm(head, fields, submit, act) {
  const form = el("form", { "aria-label": head }, ...fields,
    el("button", { type: "submit" }, submit));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(filled(form), form);
  });
  return el("div", {}, el("h3", {}, head), form);
}

/** The changes of a volume: `volume` as `/v1/volumes` has it. */
export function actionsOf(volume, changed) {
  const said = el("div", { role: "status" });
  const path = named(volume.name);
  const set = changeForm("Change its contract or size", [
    field("reserve", "Reserve", volume.reserve, false),
    field("limit", "Limit", volume.limit, false),
    field("weight", "Weight", volume.weight, false),
    field("size", "Size", volume.size, false),
  ], "Check…", async (values) => {
    const change = {};
    for (const key of ["reserve", "limit", "size"]) {
      if (values[key] && values[key] !== volume[key]) change[key] = values[key];
    }
    if (values.weight && Number(values.weight) !== volume.weight) {
      change.weight = Number(values.weight);
    }
    if (Object.keys(change).length === 0) {
      said.replaceChildren(verdict(true, "Nothing would change.", []));
      return;
    }
    await check(`Change ${volume.name}?`, "Change", `${path}/admission`, change,
      () => request("PATCH", path, change));
  });
  /** Asks the daemon for its verdict; if that is good, for a confirmation with what follows. */
  async function check(head, verb, where, body, act, ...follows) {
    try {
      const { admission } = await request("POST", where, body);
      if (!admission.fits) {
        said.replaceChildren(verdictOf(admission));
        return;
      }
      said.replaceChildren();
      const sentences = [describe(body), ...follows].map((text) => el("p", {}, text));
      confirmed(head, verb, [verdictOf(admission), ...sentences], act);
    } catch (error) {
      said.replaceChildren(refusal(error));
    }
  }
  function confirmed(head, verb, body, act) {
    confirm(head, verb, body, async () => {
      await act();
      said.replaceChildren(verdict(true, "It was changed.", []));
      changed();
    });
  }
  const all = [set];
  if (volume.pool) {
    const { pool } = volume;
    all.push(changeForm("Take a snapshot", [field("name", "Name of the snapshot", "")], "Take…",
      ({ name }) => check(`Take the snapshot ${name}?`, "Take", `${path}/snapshots/admission`,
        { name }, () => request("POST", `${path}/snapshots`, { name }),
        `It shares the ${bytes(pool.mapped_bytes)} of ${volume.name} that are mapped; blocks ` +
        "that are overwritten later take space of their own.")));
    const zones = ["any", "fast", "slow"].map((zone) => [zone, zone]);
    const zone = choice("zone", "Zone", zones);
    zone.querySelector("select").value = pool.zone;
    all.push(changeForm("Relocate", [zone, field("disks", "Disks", pool.disks.join(", "))],
      "Relocate…", (values) => {
        const disks = values.disks.split(",").map((disk) => disk.trim()).filter((disk) => disk);
        const body = { zone: values.zone, disks };
        return check(`Relocate ${volume.name}?`, "Relocate", `${path}/move/admission`, body,
          () => request("POST", `${path}/move`, body),
          `${bytes(pool.mapped_bytes)} are mapped. Blocks are moved in the slack of the disks ` +
          "while the volume is in use.");
      }));
  }
  return el("div", { class: "changes" }, ...all, said);
}
