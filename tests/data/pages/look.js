    const seen = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden";
    const name = (e) => `${e.tagName.toLowerCase()} ${e.className} ${e.textContent.trim().slice(0, 40)}`;
    const images = [...document.images];
    const inBox = (e) => { for (let p = e; p; p = p.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)) return true; return false; };
    const article = document.querySelector("article");
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const paint = (colours) => { canvas.clearRect(0, 0, 1, 1);
        for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
    const light = (rgb) => { const [r, g, b] = rgb.map(v => v / 255).map(v => v <= .04045 ? v / 12.92
        : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b + .05; };
    const behind = (e) => { const found = []; for (let p = e; p; p = p.parentElement)
        found.unshift(getComputedStyle(p).backgroundColor); return found; };
    const faint = (e) => { const style = getComputedStyle(e), ground = behind(e);
        const [x, y] = [light(paint(ground)), light(paint([...ground, style.color]))];
        return Math.max(x, y) / Math.min(x, y) < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5); };
    const own = (e) => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    return {
        wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        out: [...article.querySelectorAll("*")].filter(e => seen(e) && e.getBoundingClientRect().right > innerWidth + 1
            && !inBox(e)).map(name),
        faint: [...article.querySelectorAll("*")].filter(e => seen(e) && own(e) && !e.closest("svg, .headerlink")
            && faint(e)).map(name),
        broken: images.filter(i => !i.complete || !i.naturalWidth).map(i => i.src),
        unnamed: images.filter(i => article.contains(i) && i.alt.length < 20).map(i => i.src),
        small: images.filter(i => article.contains(i) && i.clientWidth < Math.min(300, i.naturalWidth)).map(i => i.src),
    }