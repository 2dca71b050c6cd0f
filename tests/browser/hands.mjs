// The two ways to use a control: with the mouse, and with keys alone.

/**
 * The mouse with its button held down at a place. As Playwright's, which at each move asks the page whether a thing is dragged as
 * HTML has it, in four more messages: the viewer has none.
 */
export async function hold(page, from) {
    const wire = await page.context().newCDPSession(page);
    const send = (type, { x, y }, buttons) => wire.send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons, clickCount: type === "mouseMoved" ? 0 : 1 });
    let at = from;
    await page.mouse.move(from.x, from.y);
    await send("mousePressed", from, 1);
    return {
        /** On a straight line, in so many steps. */
        async move(to, steps = 1) {
            const begin = at;
            for (let i = 1; i <= steps; i++) {
                at = { x: begin.x + ((to.x - begin.x) * i) / steps, y: begin.y + ((to.y - begin.y) * i) / steps };
                await send("mouseMoved", at, 1);
            }
        },
        async release() {
            await send("mouseReleased", at, 0);
            await wire.detach();
        },
    };
}

/** What hands do on a page. */
export function hands(page, keyboard) {
    /** As Tab would, once it is there to be seen: what is hidden takes no focus, and keys would go elsewhere. */
    async function focus(control) {
        await control.waitFor();
        await control.focus();
    }

    async function press(control) {
        if (!keyboard) return control.click();
        await focus(control);
        await page.keyboard.press("Enter");
    }

    async function write(field, value) {
        if (keyboard) {
            await focus(field);
            await page.keyboard.press("Control+A");
            await page.keyboard.type(String(value));
            await page.keyboard.press("Enter");
        } else {
            await field.click({ clickCount: 3 });
            await field.pressSequentially(String(value));
            await field.blur();
        }
    }

    async function choose(box, value) {
        if (!keyboard) return box.selectOption(value);
        const places = await box.evaluate((node, value) => [node.selectedIndex, [...node.options].findIndex((one) => one.value === value)], value);
        await focus(box);
        const key = places[1] > places[0] ? "ArrowDown" : "ArrowUp";
        for (let i = 0; i < Math.abs(places[1] - places[0]); i++) await page.keyboard.press(key);
    }

    /** Moves what can be taken hold of to the right and down by so many points, or keys. */
    async function move(handle, right, down) {
        if (keyboard) {
            await focus(handle);
            for (let i = 0; i < right; i++) await page.keyboard.press("ArrowRight");
            for (let i = 0; i < down; i++) await page.keyboard.press("ArrowDown");
            return;
        }
        const box = await handle.boundingBox();
        const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
        const mouse = await hold(page, { x, y });
        await mouse.move({ x: x + 10 * right, y: y + 10 * down }, 3);
        await mouse.release();
    }

    /** Chooses a file in the dialog that a control opens. */
    async function give(control, path) {
        const [chooser] = await Promise.all([page.waitForEvent("filechooser"), press(control)]);
        await chooser.setFiles(path);
    }

    return { press, write, choose, move, give };
}
