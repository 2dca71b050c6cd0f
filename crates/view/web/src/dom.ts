// Making elements in few words. Styles are set through the object model, which the page's policy allows.

type Attributes = Record<string, string | number | boolean | ((event: never) => void) | undefined>;
type Child = Node | string | undefined | null;

function fill(element: Element, attributes: Attributes, children: Child[]): void {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") {
            element.addEventListener(name.slice(2), value as unknown as EventListener);
        } else if (value === true) {
            element.setAttribute(name, "");
        } else if (value !== undefined && value !== false) {
            element.setAttribute(name, String(value));
        }
    }
    element.append(...children.filter((child): child is Node | string => child != null));
}

/** An element of HTML; attributes `onclick` and so on are listeners. */
export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    fill(element, attributes, children);
    return element;
}

/** An element of SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): SVGElementTagNameMap[K] {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    fill(element, attributes, children);
    return element;
}

/**
 * Sets attributes that differ, and takes those away that are `false`; text is set where it differs. What is set as it was is
 * styled, laid out and painted again by browsers.
 */
export function update(element: Element, attributes: Record<string, string | number | boolean>, text?: string): void {
    for (const [name, value] of Object.entries(attributes)) {
        const wanted = value === false ? null : value === true ? "" : String(value);
        if (element.getAttribute(name) === wanted) continue;
        if (wanted === null) element.removeAttribute(name);
        else element.setAttribute(name, wanted);
    }
    if (text !== undefined && element.textContent !== text) element.textContent = text;
}

/** A `select` of choices, given as value and words. */
export function select(
    label: string,
    choices: [string, string][],
    chosen: string,
    onchange: (value: string) => void,
): HTMLSelectElement {
    const box = el("select", { "aria-label": label, title: label });
    setChoices(box, choices, chosen);
    box.addEventListener("change", () => onchange(box.value));
    return box;
}

/** Chooses what is not chosen. */
export function pick(box: HTMLSelectElement, value: string): void {
    if (box.value !== value) box.value = value;
}

/** Other choices for a `select`. */
export function setChoices(box: HTMLSelectElement, choices: [string, string][], chosen: string): void {
    box.replaceChildren(...choices.map(([value, words]) => el("option", { value }, words)));
    box.value = chosen;
}

/** A field for a number with its unit; Enter and leaving it take what was typed. */
export function numberField(
    label: string,
    unit: string,
    step: number,
    onchange: (value: number) => void,
): { root: HTMLLabelElement; show: (value: number, step?: number) => void; input: HTMLInputElement } {
    const input = el("input", { type: "number", step: "any", "aria-label": unit ? `${label} (${unit})` : label });
    // What is being typed is not shown anew before it is taken.
    let typing = false;
    const take = () => {
        typing = false;
        const value = Number(input.value);
        if (input.value.trim() !== "" && Number.isFinite(value)) onchange(value);
    };
    input.addEventListener("input", () => (typing = true));
    input.addEventListener("change", take);
    input.addEventListener("blur", () => (typing = false));
    input.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
        event.preventDefault();
        typing = false;
        const by = (event.key === "ArrowUp" ? step : -step) * (event.shiftKey ? 10 : 1);
        const value = Number((Number(input.value || 0) + by).toPrecision(12));
        input.value = String(value);
        onchange(value);
    });
    const root = el(
        "label",
        { class: "ffv-field" },
        el("span", {}, label),
        input,
        unit ? el("span", { class: "ffv-unit" }, unit) : undefined,
    );
    const show = (value: number, step = Infinity) => {
        if (typing) return;
        const words = Number.isFinite(value) ? String(Number.isInteger(value) ? value : Number(short(value, 6, step))) : "";
        if (document.activeElement !== input || Number(input.value) !== Number(words)) {
            if (input.value !== words) input.value = words;
        }
    };
    return { root, show, input };
}

/** A button that is pressed or not. */
export function toggle(words: string, title: string, pressed: boolean, onchange: (on: boolean) => void): HTMLButtonElement {
    const button = el("button", { type: "button", title, "aria-pressed": String(pressed) }, words);
    button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        onchange(on);
    });
    return button;
}

/** A number in few digits, but in so many that others which differ by `step` have other words. */
export function short(value: number, digits = 4, step = Infinity): string {
    if (!Number.isFinite(value)) return value === Infinity ? "∞" : value === -Infinity ? "−∞" : "–";
    const size = Math.abs(value);
    const decade = (of: number) => (of > 0 ? Math.floor(Math.log10(of)) : 0);
    // One digit more than the step has: it need not be round.
    const needed = Math.min(15, decade(size) - decade(step) + 2);
    // Digits before the point are all there, or the number is written with a power of ten.
    const n = Math.max(digits, needed, size < 1e7 ? decade(size) + 1 : 0);
    const allKnown = size >= 1 && needed > decade(size);
    if (size !== 0 && !allKnown && (size >= 1e7 || size < 1e-3)) return value.toExponential(n - 1);
    return String(Number(value.toPrecision(Math.max(n, Number.isInteger(value) ? 12 : n))));
}

/** A value that is read off others which span `range`: whole numbers, such as counts, in full. */
export function reading(value: number, range: number): string {
    return Number.isSafeInteger(value) ? String(value) : short(value, 6, range / 100);
}

/** A step of 1, 2 or 5 times a power of ten, at most `most`. */
export function niceStep(most: number): number {
    if (!(most > 0) || !Number.isFinite(most)) return 1;
    const power = 10 ** Math.floor(Math.log10(most));
    const lead = most / power;
    return (lead >= 5 ? 5 : lead >= 2 ? 2 : 1) * power;
}

/** A menu that Escape, and a click elsewhere, close. */
export function closable(menu: HTMLDetailsElement): HTMLDetailsElement {
    menu.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !menu.open) return;
        menu.open = false;
        menu.querySelector("summary")!.focus();
        event.stopPropagation();
    });
    const elsewhere = (event: PointerEvent) => {
        if (!menu.isConnected) document.removeEventListener("pointerdown", elsewhere);
        else if (!menu.contains(event.target as Node)) menu.open = false;
    };
    document.addEventListener("pointerdown", elsewhere);
    return menu;
}
