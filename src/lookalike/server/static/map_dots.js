// The points of the map as dots: drawn by WebGL, which takes 100,000 of them in each frame, or else on a 2D canvas.

const VERTEX = `
attribute vec2 place;
attribute float kind;
uniform vec4 view, colours[32];
uniform float size, last;
varying vec4 colour;
void main() {
  gl_Position = vec4(place * view.xy + view.zw, 0, 1);
  gl_PointSize = kind < last ? size : 1.6 * size;
  colour = colours[int(kind)];
}`;
const FRAGMENT = `
precision mediump float;
varying vec4 colour;
void main() {
  gl_FragColor = colour * (1.0 - smoothstep(0.75, 1.0, 2.0 * length(gl_PointCoord - 0.5)));
}`;

const rgba = (colour) => {
  const [r, g, b, a = 1] = colour.match(/\w\w/g).map((digits) => parseInt(digits, 16) / 255);
  return [r * a, g * a, b * a, a];
};

export class Dots {
  constructor(canvas) {
    this.gl = canvas.getContext("webgl", { antialias: false });
    if (this.gl) this.#compile();
    else this.pen = canvas.getContext("2d");
  }

  /** Take points {x, y} in this order, and the number of each one's colour; the last colour has larger dots. */
  set({ x, y }, order, kinds) {
    this.data = new Float32Array(3 * order.length);
    order.forEach((i, at) => this.data.set([x[i], y[i], kinds[i]], 3 * at));
    if (this.gl) this.#send();
  }

  /** Draw the dots, with `size` in pixels of the canvas. */
  draw({ left, top, across, down, width, height }, colours, size) {
    const { gl, pen, data } = this;
    if (gl) {
      const at = (name) => gl.getUniformLocation(this.program, name);
      gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
      gl.uniform4f(at("view"), (2 * across) / width, (-2 * down) / height, (2 * left) / width - 1, 1 - (2 * top) / height);
      gl.uniform4fv(at("colours"), colours.flatMap(rgba));
      gl.uniform1f(at("size"), size);
      gl.uniform1f(at("last"), colours.length - 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.drawArrays(gl.POINTS, 0, data.length / 3);
      return;
    }
    pen.clearRect(0, 0, width, height);
    for (let at = 0; at < data.length; at += 3) {
      const [u, v] = [left + data[at] * across, top + data[at + 1] * down];
      pen.fillStyle = colours[data[at + 2]];
      if (u > 0 && v > 0 && u < width && v < height) pen.fillRect(u - size / 2, v - size / 2, size, size);
    }
  }

  #compile() {
    const { gl } = this;
    this.program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  #send() {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, this.data, gl.STATIC_DRAW);
    for (const [name, size, start] of [["place", 2, 0], ["kind", 1, 8]]) {
      const place = gl.getAttribLocation(this.program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, gl.FLOAT, false, 12, start);
    }
  }
}
