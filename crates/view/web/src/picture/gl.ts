// Pictures by WebGL2: values as a texture of 32-bit floats, a colour map as another, the rest in the shader.

import type { Lut, Norm } from "./colour.ts";
import type { Picture } from "./decode.ts";
import { isVector } from "./decode.ts";
import type { Painter } from "./painter.ts";
import type { View } from "./view.ts";

/** Stands for "no data": shaders need not know NaN. */
const NONE = -3e38;

const VERTEX = `#version 300 es
void main() {
    vec2 corner = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2);
    gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0);
}`;

// `origin + place * step` is a place in the picture, in its own pixels.
const FRAGMENT = `#version 300 es
precision highp float;
precision highp int;
uniform highp sampler2D values;
uniform sampler2D lut;
uniform vec2 origin;
uniform float step_;
uniform vec2 stride;
uniform vec2 whole;
uniform ivec2 size;
uniform float height;
uniform float low;
uniform float high;
uniform float gamma;
uniform int scale;
uniform bool vectors;
out vec4 colour;

float spread(float value) {
    if (scale == 1) return value <= low ? 0.0 : clamp((log(value) - log(low)) / (log(high) - log(low)), 0.0, 1.0);
    float t = clamp((value - low) / (high - low), 0.0, 1.0);
    return scale == 2 ? sqrt(t) : scale == 3 ? pow(t, gamma) : t;
}

void main() {
    vec2 screen = vec2(gl_FragCoord.x, height - gl_FragCoord.y);
    vec2 place = origin + screen * step_;
    if (any(lessThan(place, vec2(0.0))) || any(greaterThanEqual(place, whole))) {
        colour = vec4(0.0);
        return;
    }
    vec2 first = place / stride;
    // Where several pixels fall on one of the screen, their mean is shown.
    vec2 wide = step_ / stride;
    ivec2 n = clamp(ivec2(ceil(wide - 0.01)), ivec2(1), ivec2(8));
    vec2 sum = vec2(0.0);
    int found = 0;
    for (int i = 0; i < n.y; i++) {
        for (int j = 0; j < n.x; j++) {
            vec2 offset = (vec2(j, i) + 0.5) / vec2(n) - 0.5;
            vec2 at = n.x * n.y == 1 ? first : first + offset * wide;
            vec2 v = texelFetch(values, clamp(ivec2(floor(at)), ivec2(0), size - 1), 0).rg;
            if (v.r > -2.9e38 && (!vectors || v.g > -2.9e38)) {
                sum += v;
                found++;
            }
        }
    }
    if (found == 0) {
        colour = vec4(0.0);
        return;
    }
    vec2 value = sum / float(found);
    if (vectors) {
        float turn = atan(value.r, value.g) / 6.283185307179586;
        int entry = int(floor((turn - floor(turn)) * 256.0)) & 255;
        float brightness = spread(length(value));
        colour = vec4(texelFetch(lut, ivec2(entry, 0), 0).rgb * brightness, 1.0);
    } else {
        int entry = min(255, int(floor(spread(value.r) * 256.0)));
        colour = vec4(texelFetch(lut, ivec2(entry, 0), 0).rgb, 1.0);
    }
}`;

const SCALES = { linear: 0, log: 1, sqrt: 2, power: 3 } as const;

function compiled(gl: WebGL2RenderingContext, kind: number, text: string): WebGLShader {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    return shader;
}

export class GlPainter implements Painter {
    readonly kind = "webgl2";
    private readonly program: WebGLProgram;
    private readonly values: WebGLTexture;
    private readonly table: WebGLTexture;
    private readonly places = new Map<string, WebGLUniformLocation | null>();
    private picture: Picture | undefined;
    private lut: Lut | undefined;
    /** Subtracted from values before they are rounded to 32 bits, so that small differences of large ones stay. */
    private base = 0;
    /** Logarithms want the values themselves. */
    private fromBase = false;

    constructor(private readonly gl: WebGL2RenderingContext) {
        const program = gl.createProgram()!;
        gl.attachShader(program, compiled(gl, gl.VERTEX_SHADER, VERTEX));
        gl.attachShader(program, compiled(gl, gl.FRAGMENT_SHADER, FRAGMENT));
        gl.linkProgram(program);
        if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
            throw new Error(`the shader was refused: ${gl.getProgramInfoLog(program)}`);
        }
        this.program = program;
        this.values = this.texture();
        this.table = this.texture();
        gl.bindVertexArray(gl.createVertexArray());
        gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    }

    paint(picture: Picture, lut: Lut, norm: Norm, view: View, density: number): void {
        const { gl } = this;
        gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
        gl.useProgram(this.program);
        gl.activeTexture(gl.TEXTURE0);
        gl.bindTexture(gl.TEXTURE_2D, this.values);
        const fromBase = norm.scale !== "log" && !isVector(picture);
        if (this.picture !== picture || this.fromBase !== fromBase) this.upload(picture, fromBase);
        gl.activeTexture(gl.TEXTURE1);
        gl.bindTexture(gl.TEXTURE_2D, this.table);
        if (this.lut !== lut) {
            gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB8, 256, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, lut);
            this.lut = lut;
        }
        gl.uniform1i(this.at("values"), 0);
        gl.uniform1i(this.at("lut"), 1);
        gl.uniform2f(this.at("origin"), view.ox, view.oy);
        gl.uniform1f(this.at("step_"), 1 / (view.k * density));
        gl.uniform2f(this.at("stride"), picture.stride[1], picture.stride[0]);
        gl.uniform2f(this.at("whole"), view.cols, view.rows);
        gl.uniform2i(this.at("size"), picture.cols, picture.rows);
        gl.uniform1f(this.at("height"), gl.drawingBufferHeight);
        gl.uniform1f(this.at("low"), norm.low - this.base);
        gl.uniform1f(this.at("high"), norm.high - this.base);
        gl.uniform1f(this.at("gamma"), norm.gamma);
        gl.uniform1i(this.at("scale"), SCALES[norm.scale]);
        gl.uniform1i(this.at("vectors"), isVector(picture) ? 1 : 0);
        gl.drawArrays(gl.TRIANGLES, 0, 3);
    }

    clear(): void {
        this.gl.clearColor(0, 0, 0, 0);
        this.gl.clear(this.gl.COLOR_BUFFER_BIT);
    }

    destroy(): void {
        this.gl.getExtension("WEBGL_lose_context")?.loseContext();
    }

    private at(name: string): WebGLUniformLocation | null {
        let place = this.places.get(name);
        if (place === undefined) {
            place = this.gl.getUniformLocation(this.program, name);
            this.places.set(name, place);
        }
        return place;
    }

    private texture(): WebGLTexture {
        const { gl } = this;
        const texture = gl.createTexture()!;
        gl.bindTexture(gl.TEXTURE_2D, texture);
        for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) {
            gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
        }
        for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) {
            gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE);
        }
        return texture;
    }

    private upload(picture: Picture, fromBase: boolean): void {
        const { gl } = this;
        const n = picture.rows * picture.cols;
        const planes = picture.planes.length === 2 ? 2 : 1;
        const first = picture.planes[0]!;
        this.base = fromBase ? (first.find((value) => value - value === 0) ?? 0) : 0;
        this.fromBase = fromBase;
        const numbers = new Float32Array(n * planes);
        for (let plane = 0; plane < planes; plane++) {
            const values = picture.planes[plane]!;
            for (let i = 0; i < n; i++) {
                const value = values[i]! - this.base;
                numbers[i * planes + plane] = Number.isNaN(value) ? NONE : Math.min(2.8e38, Math.max(-2.8e38, value));
            }
        }
        if (planes === 2) gl.texImage2D(gl.TEXTURE_2D, 0, gl.RG32F, picture.cols, picture.rows, 0, gl.RG, gl.FLOAT, numbers);
        else gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, picture.cols, picture.rows, 0, gl.RED, gl.FLOAT, numbers);
        this.picture = picture;
    }
}
