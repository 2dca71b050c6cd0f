// Pictures by WebGL2: values as a texture of 32-bit floats, a colour map as another, the rest in the shader.

import { logRatio } from "./colour.ts";
import type { Lut, Norm } from "./colour.ts";
import type { Picture, Plane } from "./decode.ts";
import { isVector } from "./decode.ts";
import type { Scale } from "./limits.ts";
import type { Painter } from "./painter.ts";
import type { View } from "./view.ts";

/** Stands for "no data": shaders need not know NaN. */
const NONE = -3e38;

const VERTEX = `#version 300 es
void main() {
    vec2 corner = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2);
    gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0);
}`;

/** What a shader is compiled for: where the processor draws, it computes for each pixel also what is not taken. */
interface Kind {
    scale: Scale;
    vectors: boolean;
    /** Whether several pixels fall on one of the screen. */
    means: boolean;
    /** Whether rows are longer, or more, than those of textures: then values lie in rows of another length. */
    folded: boolean;
}

const LINEAR = "clamp((value - low) / (high - low), 0.0, 1.0)";
const SPREAD: Record<Scale, string> = {
    linear: LINEAR,
    log: "value <= low ? 0.0 : min(log1p((value - low) / lowest) / decades, 1.0)",
    sqrt: `sqrt(${LINEAR})`,
    power: `pow(${LINEAR}, gamma)`,
};

const ONE = `
    vec2 value = at(first);
    if (!there(value)) return;`;

const MEAN = `
    vec2 wide = step_ / stride;
    ivec2 n = clamp(ivec2(ceil(wide - 0.01)), ivec2(1), ivec2(8));
    vec2 sum = vec2(0.0);
    int found = 0;
    for (int i = 0; i < n.y; i++) {
        for (int j = 0; j < n.x; j++) {
            vec2 v = at(first + ((vec2(j, i) + 0.5) / vec2(n) - 0.5) * wide);
            if (there(v)) {
                sum += v;
                found++;
            }
        }
    }
    if (found == 0) return;
    vec2 value = sum / float(found);`;

const VECTOR = `
    float turn = atan(value.r, value.g) / 6.283185307179586;
    int entry = int(floor((turn - floor(turn)) * 256.0)) & 255;
    colour = vec4(texelFetch(lut, ivec2(entry, 0), 0).rgb * spread(length(value)), 1.0);`;

const NUMBER = `
    int entry = min(255, int(floor(spread(value.r) * 256.0)));
    colour = vec4(texelFetch(lut, ivec2(entry, 0), 0).rgb, 1.0);`;

const FOLD = `
    int number = to.y * size.x + to.x;
    to = ivec2(number % wide, number / wide);`;

// `origin + place * step` is a place in the picture, in its own pixels.
const fragment = ({ scale, vectors, means, folded }: Kind) => `#version 300 es
precision highp float;
precision highp int;
uniform highp sampler2D values;
uniform sampler2D lut;
uniform vec2 origin;
uniform float step_;
uniform vec2 stride;
uniform vec2 whole;
uniform ivec2 size;
uniform int wide;
uniform float height;
uniform float low;
uniform float high;
uniform float gamma;
uniform float lowest;
uniform float decades;
out vec4 colour;

// Of small x, 1 + x has lost most digits.
float log1p(float x) {
    return x < 0.01 ? x * (1.0 - x * (0.5 - x / 3.0)) : log(1.0 + x);
}

float spread(float value) {
    return ${SPREAD[scale]};
}

vec2 at(vec2 place) {
    ivec2 to = clamp(ivec2(floor(place)), ivec2(0), size - 1);${folded ? FOLD : ""}
    return texelFetch(values, to, 0).rg;
}

bool there(vec2 v) {
    return v.r > -2.9e38${vectors ? " && v.g > -2.9e38" : ""};
}

void main() {
    vec2 screen = vec2(gl_FragCoord.x, height - gl_FragCoord.y);
    vec2 place = origin + screen * step_;
    colour = vec4(0.0);
    if (any(lessThan(place, vec2(0.0))) || any(greaterThanEqual(place, whole))) return;
    vec2 first = place / stride;${means ? MEAN : ONE}${vectors ? VECTOR : NUMBER}
}`;

/** The largest absolute value that is finite. */
function largest(planes: Plane[]): number {
    let most = 0;
    for (const plane of planes) {
        for (let i = 0; i < plane.length; i++) {
            const size = Math.abs(plane[i]!);
            if (size > most && size < Infinity) most = size;
        }
    }
    return most;
}

/** A power of 2 of about this size; rounding stays as it is where values are divided by it. */
function powerOf2(size: number): number {
    return size > 0 ? 2 ** Math.min(1000, Math.max(-1000, Math.floor(Math.log2(size)))) : 1;
}

function compiled(gl: WebGL2RenderingContext, kind: number, text: string): WebGLShader {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    return shader;
}

/** A shader that is compiled, and where its uniforms are. */
class Program {
    private readonly program: WebGLProgram;
    private readonly places = new Map<string, WebGLUniformLocation | null>();

    constructor(
        private readonly gl: WebGL2RenderingContext,
        kind: Kind,
    ) {
        const program = gl.createProgram()!;
        gl.attachShader(program, compiled(gl, gl.VERTEX_SHADER, VERTEX));
        gl.attachShader(program, compiled(gl, gl.FRAGMENT_SHADER, fragment(kind)));
        gl.linkProgram(program);
        if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
            throw new Error(`the shader was refused: ${gl.getProgramInfoLog(program)}`);
        }
        this.program = program;
    }

    use(): void {
        this.gl.useProgram(this.program);
    }

    at(name: string): WebGLUniformLocation | null {
        let place = this.places.get(name);
        if (place === undefined) {
            place = this.gl.getUniformLocation(this.program, name);
            this.places.set(name, place);
        }
        return place;
    }
}

export class GlPainter implements Painter {
    readonly kind = "webgl2";
    private readonly programs = new Map<string, Program>();
    private readonly values: WebGLTexture;
    private readonly table: WebGLTexture;
    private picture: Picture | undefined;
    private lut: Lut | undefined;
    /** The lower limit of a logarithmic scale that the values were sent for. */
    private low: number | undefined;
    /** Subtracted from values before they are rounded to 32 bits, so that small differences of large ones stay. */
    private zero = 0;
    /** Which values are divided by, a power of 2: those of 64 bits may be larger and smaller than those of 32. */
    private unit = 1;

    /** No row of a texture is longer, and there are no more rows. */
    private readonly most: number;

    constructor(private readonly gl: WebGL2RenderingContext) {
        this.most = gl.getParameter(gl.MAX_TEXTURE_SIZE) as number;
        this.values = this.texture();
        this.table = this.texture();
        gl.bindVertexArray(gl.createVertexArray());
        gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    }

    paint(picture: Picture, lut: Lut, norm: Norm, view: View, density: number): void {
        const { gl } = this;
        const step = 1 / (view.k * density);
        const means = Math.ceil(step / Math.min(...picture.stride) - 0.01) > 1;
        const wide = this.wide(picture);
        const program = this.program({ scale: norm.scale, vectors: isVector(picture), means, folded: wide !== picture.cols });
        gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
        program.use();
        gl.activeTexture(gl.TEXTURE0);
        gl.bindTexture(gl.TEXTURE_2D, this.values);
        this.upload(picture, norm);
        gl.activeTexture(gl.TEXTURE1);
        gl.bindTexture(gl.TEXTURE_2D, this.table);
        if (this.lut !== lut) {
            gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB8, 256, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, lut);
            this.lut = lut;
        }
        gl.uniform1i(program.at("values"), 0);
        gl.uniform1i(program.at("lut"), 1);
        gl.uniform2f(program.at("origin"), view.ox, view.oy);
        gl.uniform1f(program.at("step_"), step);
        gl.uniform2f(program.at("stride"), picture.stride[1], picture.stride[0]);
        gl.uniform2f(program.at("whole"), view.cols, view.rows);
        gl.uniform2i(program.at("size"), picture.cols, picture.rows);
        gl.uniform1i(program.at("wide"), wide);
        gl.uniform1f(program.at("height"), gl.drawingBufferHeight);
        gl.uniform1f(program.at("low"), this.sent(norm.low));
        gl.uniform1f(program.at("high"), this.sent(norm.high));
        gl.uniform1f(program.at("lowest"), norm.low / this.unit);
        gl.uniform1f(program.at("decades"), logRatio(norm.high, norm.low));
        gl.uniform1f(program.at("gamma"), norm.gamma);
        gl.drawArrays(gl.TRIANGLES, 0, 3);
    }

    clear(): void {
        this.gl.clearColor(0, 0, 0, 0);
        this.gl.clear(this.gl.COLOR_BUFFER_BIT);
    }

    destroy(): void {
        this.gl.getExtension("WEBGL_lose_context")?.loseContext();
    }

    private program(kind: Kind): Program {
        const key = JSON.stringify(kind);
        let program = this.programs.get(key);
        if (!program) {
            program = new Program(this.gl, kind);
            this.programs.set(key, program);
        }
        return program;
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

    /** How long a row of the texture is. */
    private wide({ rows, cols }: Picture): number {
        return Math.max(rows, cols) > this.most ? this.most : cols;
    }

    /** A value as it is sent. */
    private sent(value: number): number {
        return value / this.unit - this.zero / this.unit;
    }

    /** Sends the values, unless they are there. Logarithms are of what lies above their lower limit. */
    private upload(picture: Picture, { scale, low }: Norm): void {
        const { gl } = this;
        const ofLow = scale === "log" && !isVector(picture);
        if (this.picture === picture && this.low === (ofLow ? low : undefined)) return;
        this.low = ofLow ? low : undefined;
        const n = picture.rows * picture.cols;
        const planes = picture.planes.length === 2 ? 2 : 1;
        const first = picture.planes[0]!;
        const finite = (value: number) => value - value === 0;
        this.zero = ofLow ? low : isVector(picture) ? 0 : (first.find(finite) ?? 0);
        this.unit = powerOf2(ofLow ? low : largest(picture.planes));
        const wide = this.wide(picture);
        const high = Math.ceil(n / wide);
        const numbers = new Float32Array(wide * high * planes);
        for (let plane = 0; plane < planes; plane++) {
            const values = picture.planes[plane]!;
            for (let i = 0; i < n; i++) {
                const value = this.sent(values[i]!);
                numbers[i * planes + plane] = Number.isNaN(value) ? NONE : Math.min(2.8e38, Math.max(-2.8e38, value));
            }
        }
        if (planes === 2) gl.texImage2D(gl.TEXTURE_2D, 0, gl.RG32F, wide, high, 0, gl.RG, gl.FLOAT, numbers);
        else gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, wide, high, 0, gl.RED, gl.FLOAT, numbers);
        this.picture = picture;
    }
}
