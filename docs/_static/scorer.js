// The order of search results: pages for users first. The other values are those of Sphinx.
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (['architecture', 'changelog', 'comparison', 'contributing', 'security'].includes(page)) return score - 10;
    return page === 'faq' ? score + 5 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
