// Parts of a page loaded anew: the page is asked for once more, and some of its elements replace
// those shown. A request for a document parses it without running scripts in it.
let newest = null;

export function loadParts(url, ids, done = () => {}) {
  newest?.abort();
  const request = new XMLHttpRequest();
  newest = request;
  request.responseType = "document";
  request.open("GET", url);
  request.onload = () => {
    for (const id of ids) {
      const part = request.response?.getElementById(id);
      if (part) document.getElementById(id)?.replaceWith(document.importNode(part, true));
    }
    done(request.response);
  };
  request.send();
}
