// Where a volume of the pool lies: its layout, disks and zone, a mirror's copies, and how many lost
// disks a mirror's stream survives. Each is shown where it applies, and keeps its value meanwhile.

import { choice, el, field } from "./dom.js";

const LAYOUTS = ["single", "stripe", "random", "mirror"];
const ZONES = ["any", "fast", "slow", "fastest 10%"];
const ZONE_LIST = "zones";

/** A whole number as such. Anything else as it is: the daemon says what it accepts. */
const whole = (text) => (/^-?\d+$/.test(text) ? Number(text) : text);

function zoneField() {
  const zone = field("zone", "Zone", "any");
  zone.querySelector("input").setAttribute("list", ZONE_LIST);
  zone.append(el("datalist", { id: ZONE_LIST }, ...ZONES.map((value) => el("option", { value }))));
  return zone;
}

/** Replaces the children of `parent` if they are others: an input keeps its focus. */
function setChildren(parent, nodes) {
  const before = [...parent.children];
  if (before.length === nodes.length && nodes.every((node, at) => node === before[at])) return;
  parent.replaceChildren(...nodes);
}

export class Placement {
  /** The fields of the placement. */
  group = el("div", { class: "contract", role: "group", "aria-label": "Place in the pool" });
  /** What a stream survives: beside the fields of its contract. */
  survival = el("div", { class: "contract" });
  #layout = choice("layout", "Layout", LAYOUTS.map((one) => [one, one]));
  #copies = field("copies", "Copies", "2");
  #disks = field("disks", "Disks (all, if none)", "", false);
  #zone = zoneField();
  #survive = field("survive", "Lost disks it survives (optional)", "", false);
  #count = 0;

  /** The disks of the pool, as `/v1/pool` has them. */
  setDisks(disks) {
    this.#count = disks.length;
    const names = disks.map((disk) => disk.name).filter((name) => name);
    this.#disks.querySelector("input").placeholder = names.join(", ");
  }

  /** Shows what applies to a volume of the pool, and to one with a stream. */
  show(isInPool, isStream) {
    const hasChoice = isInPool && this.#count > 1;
    const isMirror = hasChoice && this.#layout.querySelector("select").value === "mirror";
    const nodes = [];
    if (hasChoice) nodes.push(this.#layout);
    if (isMirror) nodes.push(this.#copies);
    if (hasChoice) nodes.push(this.#disks);
    if (isInPool) nodes.push(this.#zone);
    setChildren(this.group, nodes);
    setChildren(this.survival, isMirror && isStream ? [this.#survive] : []);
  }

  /** Divides the values of a form: the placement, what a stream survives, and the others. */
  take({ layout, copies, disks, zone, survive, ...values }) {
    const placed = {};
    if (layout) placed.layout = layout;
    if (copies) placed.copies = whole(copies);
    if (disks) placed.disks = disks.split(",").map((disk) => disk.trim()).filter((disk) => disk);
    if (zone) placed.zone = zone;
    return { placed, survival: survive ? { survive: whole(survive) } : {}, values };
  }
}
