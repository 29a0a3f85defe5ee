#include "operator/page/job_page.h"

namespace paceline::operator_ {

namespace {

constexpr char kHtml[] = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Paceline: runs</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<a class="home" href="#/">Paceline</a>
<nav aria-label="Pages"><a href="#/">Runs</a> <a href="#/nodes">Nodes</a></nav>
<form id="place">
<label>Namespace <input id="namespace" autocomplete="off" spellcheck="false" placeholder="all"></label>
<button type="submit">Show</button>
<button type="button" id="leave" hidden>Forget the token</button>
</form>
</header>
<main id="main" tabindex="-1">
<form id="login" hidden>
<h1>Whose runs?</h1>
<p>This page shows what the API server lets you see. Give it a token of yours, for instance from
<code>kubectl create token NAME --namespace NAMESPACE</code>. It stays in this tab and is gone when you close it.</p>
<label>Token <input id="token" type="password" autocomplete="off" required></label>
<button type="submit">Go on</button>
</form>
<p id="problem" role="alert" hidden></p>
<div id="content"></div>
</main>
<footer>Read only. <span id="age" role="status"></span></footer>
</body>
</html>
)html";

}  // namespace

std::string_view PageHtml() { return kHtml; }

}  // namespace paceline::operator_
