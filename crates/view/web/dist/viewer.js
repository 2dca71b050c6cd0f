const status = document.getElementById("status");
const socket = new WebSocket(new URL("ws", location.href).href.replace(/^http/, "ws"));
socket.binaryType = "arraybuffer";
socket.onopen = () => socket.send(JSON.stringify({ type: "hello", version: 1 }));
socket.onmessage = ({ data }) => {
  if (typeof data !== "string") return;
  const message = JSON.parse(data);
  if (message.type === "hello") status.textContent = message.description.name;
  if (message.type === "error") status.textContent = message.message;
};
socket.onclose = () => { status.textContent = "The viewer has ended."; };
