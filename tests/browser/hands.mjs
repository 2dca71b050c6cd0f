// The two ways to use a control: with the mouse, and with keys alone.

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
        await page.mouse.move(x, y);
        await page.mouse.down();
        await page.mouse.move(x + 10 * right, y + 10 * down, { steps: 3 });
        await page.mouse.up();
    }

    /** Chooses a file in the dialog that a control opens. */
    async function give(control, path) {
        const [chooser] = await Promise.all([page.waitForEvent("filechooser"), press(control)]);
        await chooser.setFiles(path);
    }

    return { press, write, choose, move, give };
}
