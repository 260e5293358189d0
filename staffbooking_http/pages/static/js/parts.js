// Parts of a page loaded anew: the page is asked for once more, and some of its elements replace
// those shown, unless a newer request is to replace them. A request for a document parses it without
// running scripts in it.
const newest = new Map(); // The newest request of each part.

// `failed` is called with the status of a page without the first part, such as an error; with 0 where
// no answer comes, as when the whole page is being left.
export function loadParts(url, ids, done, failed) {
  const request = new XMLHttpRequest();
  const older = ids.map((id) => newest.get(id));
  for (const id of ids) newest.set(id, request);
  const wanted = new Set(newest.values());
  for (const each of older) if (!wanted.has(each)) each?.abort();
  request.responseType = "document";
  request.open("GET", url);
  request.onload = () => {
    const page = request.response;
    if (!page?.getElementById(ids[0])) return failed(request.status);
    for (const id of ids) {
      const part = newest.get(id) === request && page.getElementById(id);
      if (part) document.getElementById(id)?.replaceWith(document.importNode(part, true));
    }
    done(page);
  };
  request.onerror = () => failed(0);
  request.send();
}
